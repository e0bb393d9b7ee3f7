"""Drives the contracts of EchoMQ through the client library `valkey` (PyPI).

    python3 driver.py --url valkey://127.0.0.1:6379 --bundle ../../../lua [--set seed|second|all]
                      [--only NAME] [--sabotage token|kind|ring|wake] [--own-server]

It knows what ../../README.md says and nothing else of the project. Exit codes: 0 all hold, 1 one is
broken, 2 usage, 3 refused by the fence, 4 the bundle isn't the manifest's, 5 the server failed.
"""

import argparse
import hashlib
import json
import pathlib
import re
import secrets
import sys
import time
import tomllib

import valkey

HOME = pathlib.Path(__file__).resolve().parents[2]
EPOCH_MS = 1_704_067_200_000
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ADMISSIONS = ("enqueue", "lane_enqueue", "schedule", "enqueue_many")
SETTLES = ("complete", "retry", "release", "extend", "checkpoint")
SETS = {"seed": ("contracts", "CONF", "CONFORMANCE"),
        "second": ("contracts2", "CONF2", "CONFORMANCE-2")}
# How `leaves` reads a key, by its part after the queue's base.
READING = {"ring": ("LRANGE", "0", "-1"), "wake": ("LLEN",), "paused": ("SMEMBERS",)}
READING |= dict.fromkeys(("pending", "active", "schedule", "dead"), ("ZRANGE", "0", "-1"))
READING |= dict.fromkeys(
    ("glimit", "gactive", "gweight", "unique", "meta", "timetable"), ("HGETALL",))


class Ends(Exception):
    """The run ends here, with an exit code."""

    def __init__(self, code, words):
        super().__init__(words)
        self.code = code


class Broken(Exception):
    """A step didn't answer what it must."""


class Server:
    """A connection whose replies come as the server sent them; a refusal is a reply."""

    def __init__(self, url):
        self.client = valkey.from_url(url, decode_responses=False)
        self.client.response_callbacks.clear()

    def call(self, *words):
        try:
            return self.client.execute_command(*words)
        except valkey.exceptions.ResponseError as refusal:
            return refusal

    def must(self, *words):
        reply = self.call(*words)
        if isinstance(reply, Exception):
            raise Ends(5, f"SERVER {reply}")
        return reply

    def clock_ms(self):
        seconds, micros = self.must("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def keys(self, prefix):
        found, cursor = set(), b"0"
        while True:
            cursor, page = self.must("SCAN", cursor, "MATCH", prefix + b"*", "COUNT", 1000)
            found.update(page)
            if cursor == b"0":
                return sorted(found)


def class_of(reply):
    """The first word of a refusal. The library names some classes by types of its own."""
    if isinstance(reply, valkey.exceptions.NoScriptError):
        return "NOSCRIPT"
    if isinstance(reply, valkey.exceptions.OutOfMemoryError):
        return "OOM"
    return str(reply).split(" ", 1)[0] if isinstance(reply, Exception) else None


class Bundle:
    """The scripts as files, their digests, and the keys that each is called with."""

    def __init__(self, folder):
        manifest = tomllib.loads((folder / "manifest.toml").read_text())
        keys = json.loads((HOME / "calls.json").read_text())
        self.wire, self.scripts = manifest["wire"], {}
        for entry in manifest["scripts"]:
            source = (folder / entry["file"]).read_bytes()
            sha1 = hashlib.sha1(source).hexdigest()
            if sha1 != entry["sha1"]:
                raise Ends(4, f"BUNDLE {entry['file']} has SHA-1 {sha1}, "
                              f"the manifest says {entry['sha1']}")
            self.scripts[entry["name"]] = (sha1, source, keys[entry["name"]])


def pass_fence(server, bundle):
    """Before the first command: the version, then the engine, then the scripts."""
    found = server.call("GET", "{emq}:version")
    if found is None:
        server.must("SET", "{emq}:version", bundle.wire, "NX")
        found = server.must("GET", "{emq}:version")
    if isinstance(found, Exception):
        found = b"no string" if str(found).startswith("WRONGTYPE") else str(found).encode()
    if found != bundle.wire.encode():
        found = found.decode(errors="replace")[:64]
        raise Ends(3, f"FENCE version expected {bundle.wire} found {found}")
    info = dict(line.split(":", 1) for line in server.must("INFO", "server").decode().splitlines()
                if ":" in line)
    name = info.get("server_name", "redis")
    version = info.get("valkey_version", info.get("redis_version", "0"))
    if info.get("server_mode", info.get("redis_mode")) == "cluster":
        raise Ends(3, "FENCE engine found a cluster needs valkey 7.2")
    if name != "valkey" or [int(part) for part in version.split(".")[:2]] < [7, 2]:
        raise Ends(3, f"FENCE engine found {name} {version} needs valkey 7.2")
    for name, (sha1, source, _) in bundle.scripts.items():
        if server.must("SCRIPT LOAD", source) != sha1.encode():
            raise Ends(4, f"BUNDLE the server has another digest of {name}")


class Names:
    """What `${name}` stands for, and ids in mint order."""

    def __init__(self, queue, wire):
        self.last, self.node = 0, secrets.randbelow(1024)
        self.values = {"queue": queue.encode(), "base": b"emq:{%s}:" % queue.encode(),
                       "wire": wire.encode()}

    def mint(self, kind, name):
        now = (int(time.time() * 1000) - EPOCH_MS) << 22 | self.node << 12
        self.last = rest = max(now, self.last + 1)
        text = ""
        for _ in range(11):
            rest, digit = divmod(rest, 62)
            text = DIGITS[digit] + text
        self.values[name] = (kind + text).encode()

    def fill(self, text):
        def value(match):
            name, offset = match.group(1).decode(), match.group(2)
            if name not in self.values:
                raise Broken(f"nothing is called {name!r}")
            found = self.values[name]
            return b"%d" % (int(found) + int(offset)) if offset else found
        return re.sub(rb"\$\{([a-z0-9_]+)([+-]\d+)?\}", value, text.encode())

    def number(self, arg):
        return arg if isinstance(arg, int) else int(self.fill(arg))

    def arguments(self, args):
        filled = []
        for arg in args:
            if isinstance(arg, (str, int)):
                filled.append(self.fill(str(arg)))
            elif "hex" in arg:
                filled.append(bytes.fromhex(arg["hex"]))
            elif "repeat" in arg:
                filled.append(arg["repeat"].encode() * arg["times"])
            else:
                for _ in range(arg["times"]):
                    self.mint("JOB", "new")
                    filled += self.arguments(arg["spread"])
        return filled


def matches(expect, reply, names):
    """Whether a reply is what is expected."""
    if expect is None or isinstance(expect, int):
        return type(reply) is type(expect) and reply == expect
    if isinstance(expect, str):
        return reply == names.fill(expect)
    if isinstance(expect, list):
        return isinstance(reply, list) and len(reply) == len(expect) and all(
            matches(one, found, names) for one, found in zip(expect, reply))
    [(word, value), *rest] = expect.items()
    if word == "any":
        return True
    if word == "error":
        return class_of(reply) == value
    if word == "hex":
        return reply == bytes.fromhex(value)
    if word == "repeat":
        return reply == value.encode() * expect["times"]
    if word == "pattern":
        pattern = b".*".join(re.escape(part) for part in names.fill(value).split(b"*"))
        return isinstance(reply, bytes) and bool(re.fullmatch(pattern, reply, re.DOTALL))
    if word == "range":
        try:
            return names.number(value[0]) <= int(reply) <= names.number(value[1])
        except (TypeError, ValueError):
            return False
    if word == "one_of":
        return any(matches(one, reply, names) for one in value)
    if not isinstance(reply, list):
        return False
    if word == "prefix":
        return len(reply) >= len(value) and matches(value, reply[:len(value)], names)
    if word == "length":
        each = expect.get("each", {"any": True})
        return len(reply) == value and all(matches(each, found, names) for found in reply)
    if word == "set":
        return same_set(value, reply, names)
    if word == "map":
        return same_map(value, reply, names)
    raise Broken(f"no expectation: {word!r}")


def same_set(expect, reply, names):
    left = list(reply)
    for one in expect:
        place = next((n for n, found in enumerate(left) if matches(one, found, names)), None)
        if place is None:
            return False
        del left[place]
    return not left


def same_map(expect, reply, names):
    found = dict(zip(reply[::2], reply[1::2]))
    fields = {names.fill(name): value for name, value in expect.items() if name != "..."}
    if "..." not in expect and set(found) != set(fields):
        return False
    return all(name in found and matches(value, found[name], names)
               for name, value in fields.items())


class Drive:
    """One contract on a queue of its own."""

    def __init__(self, server, bundle, args, contract):
        self.server, self.bundle, self.args, self.contract = server, bundle, args, contract
        queue = f"conf-{secrets.token_hex(8)}-{contract['name']}"
        self.names, self.last_token = Names(queue, bundle.wire), b"1"
        self.base = self.names.values["base"]

    def run(self):
        for declared in self.contract.get("ids", []):
            self.names.mint(*declared.split(" ", 1))
        try:
            for n, step in enumerate(self.contract["steps"], 1):
                try:
                    self.step(step)
                except Broken as why:
                    raise Broken(f"step {n}, {step['says']}: {why}") from None
        finally:
            for words in self.contract.get("finally", []):
                self.server.call(*self.names.arguments(words))
            if keys := self.server.keys(self.base):
                self.server.must("UNLINK", *keys)

    def step(self, step):
        if "script" in step:
            if step.get("cold_script_cache"):
                self.server.must("SCRIPT FLUSH")
            self.judge(step, self.script(step["script"], self.names.arguments(step["args"])))
        elif "command" in step:
            self.judge(step, self.server.call(*self.names.arguments(step["command"])))
        elif "clock" in step:
            self.names.values[step["clock"]] = b"%d" % self.server.clock_ms()
        elif "wait_past" in step:
            # Only the server's clock decides; between two looks at it this sleeps.
            moment = self.names.number(step["wait_past"])
            while (left := moment - self.server.clock_ms()) >= 0:
                time.sleep(min(left + 1, 20) / 1000)
        elif "fence" in step:
            self.fence(step["fence"])
        for part, expect in step.get("leaves", {}).items():
            self.look(self.names.fill(part), expect)

    def script(self, name, args):
        sha1, source, parts = self.bundle.scripts[name]
        keys = [part.encode() if part[0] == "{" else self.base + part.encode() for part in parts]
        self.spoil(name, parts, keys, args)
        reply = self.server.call("EVALSHA", sha1, len(keys), *keys, *args)
        if class_of(reply) == "NOSCRIPT":
            self.server.must("SCRIPT LOAD", source)
            reply = self.server.call("EVALSHA", sha1, len(keys), *keys, *args)
        if name in ("claim", "lane_claim") and isinstance(reply, list) and len(reply) > 2:
            self.last_token = b"%d" % reply[2]
        return reply

    def spoil(self, name, parts, keys, args):
        """What a broken client gets wrong: see the README, "Clients that are wrong on purpose"."""
        sabotage = self.args.sabotage
        if sabotage == "token" and name in SETTLES and len(args) > 2:
            args[2] = self.last_token
        if sabotage == "kind" and name in ADMISSIONS and len(args[1]) == 14:
            args[1] = b"JOB" + args[1][3:]
        if sabotage == "ring" and name == "lane_enqueue" or \
                sabotage == "wake" and name in ADMISSIONS:
            keys[parts.index(sabotage)] += b"s"

    def judge(self, step, reply):
        self.compare(step["expect"], reply)
        for name, path in step.get("save", {}).items():
            value = reply
            for place in path:
                value = value[place]
            self.names.values[name] = b"%d" % value if isinstance(value, int) else value

    def compare(self, expect, reply):
        if not matches(expect, reply, self.names):
            raise Broken(f"expected {json.dumps(expect)}, got {reply!r:.300}")

    def fence(self, expect):
        try:
            pass_fence(Server(self.args.url), self.bundle)
            verdict = "passes"
        except Ends as refused:
            verdict = str(refused)
        if expect != "passes":
            expect = f"FENCE version expected {self.bundle.wire} found {expect['refuses']}"
        if verdict != expect:
            raise Broken(f"expected {expect}, got {verdict}")

    def look(self, part, expect):
        word = part.decode()
        if word == "*":
            reply, expect = [key[len(self.base):] for key in self.server.keys(self.base)], \
                {"set": expect}
        else:
            reading = READING.get(word) or (READING["pending"] if word[:2] == "g:" else None)
            command, *rest = reading or READING["meta"]
            reply = self.server.call(command, self.base + part, *rest)
            if command == "HGETALL":
                expect = {"map": expect}
            if command == "SMEMBERS" and isinstance(expect, list):
                expect = {"set": expect}
        try:
            self.compare(expect, reply)
        except Broken as why:
            raise Broken(f"{word}: {why}") from None


def drive_set(server, bundle, args, which):
    """Prints a line for each contract and the count; answers whether any is broken, or none ran."""
    folder, line, closing = SETS[which]
    held = total = skipped = 0
    for path in sorted((HOME / folder).glob("*.json")):
        contract = json.loads(path.read_text(encoding="utf-8"))
        if args.only and contract["name"] != args.only:
            continue
        number, verdict, words = int(path.name.split("-")[0]), "ok", contract["why"]
        if contract.get("needs") == "own_server" and not args.own_server:
            verdict, words = "skip", "needs a server of its own"
        else:
            try:
                Drive(server, bundle, args, contract).run()
            except Broken as why:
                verdict, words = "FAIL", str(why)
        held += verdict == "ok"
        skipped += verdict == "skip"
        total += verdict != "skip"
        print(f"{line:<5} {number:>2} {contract['name']:<14} {verdict:<4}  {words}")
    if total or skipped:
        print(f"{closing} {held}/{total}" + (f", {skipped} skipped" if skipped else ""))
    return held, total


def main():
    parser = argparse.ArgumentParser(description="Drives the contracts of EchoMQ.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--bundle", required=True, type=pathlib.Path)
    parser.add_argument("--set", default="seed", choices=("seed", "second", "all"))
    parser.add_argument("--only")
    parser.add_argument("--sabotage", choices=("token", "kind", "ring", "wake"))
    parser.add_argument("--own-server", action="store_true")
    args = parser.parse_args()
    try:
        bundle, server = Bundle(args.bundle), Server(args.url)
        pass_fence(server, bundle)
        counts = [drive_set(server, bundle, args, which) for which in SETS
                  if args.set in (which, "all")]
    except Ends as end:
        print(end, file=sys.stderr)
        return end.code
    except (valkey.exceptions.ConnectionError, valkey.exceptions.TimeoutError) as lost:
        print(f"SERVER {lost}", file=sys.stderr)
        return 5
    held, total = map(sum, zip(*counts))
    return 0 if held == total > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
