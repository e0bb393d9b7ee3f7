"use strict";
// Drives the contracts of EchoMQ through the client library `iovalkey` (npm).
//
//   node driver.cjs --url valkey://127.0.0.1:6379 --bundle ../../../lua [--set seed|second|all]
//                   [--only NAME] [--sabotage token|kind|ring|wake] [--own-server]
//
// It knows what ../../README.md says and nothing else of the project. Exit codes: 0 all hold, 1 one
// is broken, 2 usage, 3 refused by the fence, 4 the bundle isn't the manifest's, 5 the server failed.

const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const { parseArgs } = require("node:util");
const { Redis, Command } = require("iovalkey");
const toml = require("smol-toml");

const HOME = path.resolve(__dirname, "../..");
const EPOCH_MS = 1704067200000n;
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ADMISSIONS = ["enqueue", "lane_enqueue", "schedule", "enqueue_many"];
const SETTLES = ["complete", "retry", "release", "extend", "checkpoint"];
const SETS = {
  seed: ["contracts", "CONF", "CONFORMANCE"],
  second: ["contracts2", "CONF2", "CONFORMANCE-2"],
};
// How `leaves` reads a key, by its part after the queue's base.
const SORTED = ["ZRANGE", "0", "-1"];
const HASH = ["HGETALL"];
const READING = {
  ring: ["LRANGE", "0", "-1"], wake: ["LLEN"], paused: ["SMEMBERS"],
  pending: SORTED, active: SORTED, schedule: SORTED, dead: SORTED,
  glimit: HASH, gactive: HASH, gweight: HASH, unique: HASH, meta: HASH,
  timetable: HASH,
};

/** The run ends here, with an exit code. */
class Ends extends Error {
  constructor(code, words) {
    super(words);
    this.code = code;
  }
}

/** A step didn't answer what it must. */
class Broken extends Error {}

// Replies are wanted as the server sent them.
Command.setReplyTransformer("hgetall", (reply) => reply);

/** A connection on which a refusal is a reply. */
class Server {
  constructor(url) {
    // The library knows the scheme by its older name.
    this.client = new Redis(url.replace(/^valkey:/, "redis:"), {
      retryStrategy: null, maxRetriesPerRequest: 0, enableReadyCheck: false, lazyConnect: true,
    });
    this.client.on("error", () => {}); // Each call fails with it as well.
  }

  async open() {
    await this.client.connect();
    return this;
  }

  async call(...words) {
    try {
      return await this.client.callBuffer(...words);
    } catch (refusal) {
      if (refusal.name === "ReplyError") return refusal;
      throw new Ends(5, `SERVER ${refusal.message}`);
    }
  }

  async must(...words) {
    const reply = await this.call(...words);
    if (reply instanceof Error) throw new Ends(5, `SERVER ${reply.message}`);
    return reply;
  }

  async clockMs() {
    const [seconds, micros] = await this.must("TIME");
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  async keys(prefix) {
    const found = new Set();
    let cursor = "0";
    do {
      const [next, page] = await this.must("SCAN", cursor, "MATCH", `${prefix}*`, "COUNT", "1000");
      for (const key of page) found.add(key.toString());
      cursor = next.toString();
    } while (cursor !== "0");
    return [...found].sort();
  }
}

const classOf = (reply) => (reply instanceof Error ? reply.message.split(" ", 1)[0] : null);

/** The scripts as files, their digests, and the keys that each is called with. */
function loadBundle(folder) {
  const manifest = toml.parse(fs.readFileSync(path.join(folder, "manifest.toml"), "utf8"));
  const keys = JSON.parse(fs.readFileSync(path.join(HOME, "calls.json"), "utf8"));
  const scripts = new Map();
  for (const entry of manifest.scripts) {
    const source = fs.readFileSync(path.join(folder, entry.file));
    const sha1 = crypto.createHash("sha1").update(source).digest("hex");
    if (sha1 !== entry.sha1) {
      const says = `the manifest says ${entry.sha1}`;
      throw new Ends(4, `BUNDLE ${entry.file} has SHA-1 ${sha1}, ${says}`);
    }
    scripts.set(entry.name, { sha1, source, keys: keys[entry.name] });
  }
  return { wire: manifest.wire, scripts };
}

/** Before the first command: the version, then the engine, then the scripts. */
async function passFence(server, bundle) {
  let found = await server.call("GET", "{emq}:version");
  if (found === null) {
    await server.must("SET", "{emq}:version", bundle.wire, "NX");
    found = await server.must("GET", "{emq}:version");
  }
  if (classOf(found) === "WRONGTYPE") found = "no string";
  if (found instanceof Error) throw new Ends(5, `SERVER ${found.message}`);
  if (String(found) !== bundle.wire) {
    throw new Ends(3, `FENCE version expected ${bundle.wire} found ${String(found).slice(0, 64)}`);
  }
  const info = (await server.must("INFO", "server")).toString();
  const field = (name) => info.match(new RegExp(`^${name}:(.*?)\\r?$`, "m"))?.[1];
  const name = field("server_name") ?? "redis";
  const version = field("valkey_version") ?? field("redis_version") ?? "0";
  if ((field("server_mode") ?? field("redis_mode")) === "cluster") {
    throw new Ends(3, "FENCE engine found a cluster needs valkey 7.2");
  }
  const [major, minor = 0] = version.split(".").map(Number);
  if (name !== "valkey" || major < 7 || (major === 7 && minor < 2)) {
    throw new Ends(3, `FENCE engine found ${name} ${version} needs valkey 7.2`);
  }
  for (const [script, { sha1, source }] of bundle.scripts) {
    if (String(await server.must("SCRIPT", "LOAD", source)) !== sha1) {
      throw new Ends(4, `BUNDLE the server has another digest of ${script}`);
    }
  }
}

/** What `${name}` stands for, and ids in mint order. */
class Names {
  constructor(queue, wire) {
    this.last = 0n;
    this.node = BigInt(crypto.randomInt(1024));
    this.values = new Map([["queue", queue], ["base", `emq:{${queue}}:`], ["wire", wire]]);
  }

  mint(kind, name) {
    const now = ((BigInt(Date.now()) - EPOCH_MS) << 22n) | (this.node << 12n);
    this.last = now > this.last ? now : this.last + 1n;
    let text = "";
    for (let rest = this.last; text.length < 11; rest /= 62n) {
      text = DIGITS[Number(rest % 62n)] + text;
    }
    this.values.set(name, kind + text);
  }

  /** Names stand for text only; bytes that aren't text come as `hex` and are never saved. */
  fill(text) {
    return text.replace(/\$\{([a-z0-9_]+)([+-]\d+)?\}/g, (_, name, offset) => {
      if (!this.values.has(name)) throw new Broken(`nothing is called ${name}`);
      const value = this.values.get(name);
      return offset ? String(Number(value) + Number(offset)) : value;
    });
  }

  number(arg) {
    return typeof arg === "number" ? arg : Number(this.fill(arg));
  }

  arguments(args) {
    return args.flatMap((arg) => {
      if (typeof arg !== "object") return [Buffer.from(this.fill(String(arg)))];
      if ("hex" in arg) return [Buffer.from(arg.hex, "hex")];
      if ("repeat" in arg) return [Buffer.from(arg.repeat.repeat(arg.times))];
      const many = [];
      for (let n = 0; n < arg.times; n += 1) {
        this.mint("JOB", "new");
        many.push(...this.arguments(arg.spread));
      }
      return many;
    });
  }
}

const isBytes = (reply, bytes) => Buffer.isBuffer(reply) && reply.equals(Buffer.from(bytes));

/** Whether a reply is what is expected. */
function matches(expect, reply, names) {
  if (expect === null || typeof expect === "number") return reply === expect;
  if (typeof expect === "string") return isBytes(reply, names.fill(expect));
  const alike = (some, found) => some.every((one, n) => matches(one, found[n], names));
  if (Array.isArray(expect)) {
    return Array.isArray(reply) && reply.length === expect.length && alike(expect, reply);
  }
  const [word, value] = Object.entries(expect)[0];
  switch (word) {
    case "any": return true;
    case "error": return classOf(reply) === value;
    case "hex": return isBytes(reply, Buffer.from(value, "hex"));
    case "repeat": return isBytes(reply, value.repeat(expect.times));
    case "one_of": return value.some((one) => matches(one, reply, names));
    case "pattern": {
      const escaped = names.fill(value).replace(/[.+?^${}()|[\]\\]/g, "\\$&");
      const pattern = new RegExp(`^${escaped.replaceAll("*", ".*")}$`, "s");
      return Buffer.isBuffer(reply) && pattern.test(reply.toString());
    }
    case "range": {
      const found = typeof reply === "number" ? reply : Number(reply ?? NaN);
      return names.number(value[0]) <= found && found <= names.number(value[1]);
    }
    default:
  }
  if (!Array.isArray(reply)) return false;
  switch (word) {
    case "prefix": return reply.length >= value.length && alike(value, reply);
    case "set": return sameSet(value, reply, names);
    case "map": return sameMap(value, reply, names);
    case "length": {
      const each = expect.each ?? { any: true };
      return reply.length === value && reply.every((found) => matches(each, found, names));
    }
    default: throw new Broken(`no expectation: ${word}`);
  }
}

function sameSet(expect, reply, names) {
  const left = [...reply];
  for (const one of expect) {
    const place = left.findIndex((found) => matches(one, found, names));
    if (place < 0) return false;
    left.splice(place, 1);
  }
  return left.length === 0;
}

function sameMap(expect, reply, names) {
  const found = new Map();
  for (let n = 0; n < reply.length; n += 2) found.set(String(reply[n]), reply[n + 1]);
  const fields = Object.entries(expect).filter(([name]) => name !== "...");
  if (!("..." in expect) && found.size !== fields.length) return false;
  return fields.every(([field, value]) => {
    const name = names.fill(field);
    return found.has(name) && matches(value, found.get(name), names);
  });
}

/** One contract on a queue of its own. */
class Drive {
  constructor(server, bundle, args, contract) {
    Object.assign(this, { server, bundle, args, contract });
    const queue = `conf-${crypto.randomBytes(8).toString("hex")}-${contract.name}`;
    this.names = new Names(queue, bundle.wire);
    this.base = this.names.values.get("base");
    this.lastToken = "1";
  }

  async run() {
    for (const declared of this.contract.ids ?? []) this.names.mint(...declared.split(" "));
    try {
      for (const [n, step] of this.contract.steps.entries()) {
        try {
          await this.step(step);
        } catch (why) {
          if (!(why instanceof Broken)) throw why;
          throw new Broken(`step ${n + 1}, ${step.says}: ${why.message}`);
        }
      }
    } finally {
      for (const words of this.contract.finally ?? []) {
        await this.server.call(...this.names.arguments(words));
      }
      const keys = await this.server.keys(this.base);
      if (keys.length > 0) await this.server.must("UNLINK", ...keys);
    }
  }

  async step(step) {
    if ("script" in step) {
      if (step.cold_script_cache) await this.server.must("SCRIPT", "FLUSH");
      this.judge(step, await this.script(step.script, this.names.arguments(step.args)));
    } else if ("command" in step) {
      const [name, ...rest] = this.names.arguments(step.command);
      this.judge(step, await this.server.call(name.toString(), ...rest));
    } else if ("clock" in step) {
      this.names.values.set(step.clock, String(await this.server.clockMs()));
    } else if ("wait_past" in step) {
      await this.waitPast(this.names.number(step.wait_past));
    } else if ("fence" in step) {
      await this.fence(step.fence);
    }
    for (const [part, expect] of Object.entries(step.leaves ?? {})) {
      await this.look(this.names.fill(part), expect);
    }
  }

  async script(name, args) {
    const { sha1, source, keys: parts } = this.bundle.scripts.get(name);
    const keys = parts.map((part) => (part.startsWith("{") ? part : this.base + part));
    this.spoil(name, parts, keys, args);
    const words = ["EVALSHA", sha1, String(keys.length), ...keys, ...args];
    let reply = await this.server.call(...words);
    if (classOf(reply) === "NOSCRIPT") {
      await this.server.must("SCRIPT", "LOAD", source);
      reply = await this.server.call(...words);
    }
    if (["claim", "lane_claim"].includes(name) && reply[2] !== undefined) {
      this.lastToken = String(reply[2]);
    }
    return reply;
  }

  /** What a broken client gets wrong: see the README, "Clients that are wrong on purpose". */
  spoil(name, parts, keys, args) {
    const { sabotage } = this.args;
    const admits = ADMISSIONS.includes(name);
    if (sabotage === "token" && SETTLES.includes(name) && args.length > 2) args[2] = this.lastToken;
    if (sabotage === "kind" && admits && args[1].length === 14) args[1] = `JOB${args[1].subarray(3)}`;
    if ((sabotage === "ring" && name === "lane_enqueue") || (sabotage === "wake" && admits)) {
      keys[parts.indexOf(sabotage)] += "s";
    }
  }

  judge(step, reply) {
    this.compare(step.expect, reply);
    for (const [name, places] of Object.entries(step.save ?? {})) {
      this.names.values.set(name, String(places.reduce((value, place) => value[place], reply)));
    }
  }

  compare(expect, reply) {
    if (matches(expect, reply, this.names)) return;
    const text = (_, value) => (value?.type === "Buffer" ? String(Buffer.from(value)) : value);
    const found = reply instanceof Error ? reply.message : JSON.stringify(reply, text);
    throw new Broken(`expected ${JSON.stringify(expect)}, got ${found.slice(0, 300)}`);
  }

  /** Only the server's clock decides; between two looks at it this sleeps. */
  async waitPast(moment) {
    for (;;) {
      const left = moment - (await this.server.clockMs());
      if (left < 0) return;
      await new Promise((resolve) => { setTimeout(resolve, Math.min(left + 1, 20)); });
    }
  }

  async fence(expect) {
    const other = await new Server(this.args.url).open();
    let verdict = "passes";
    try {
      await passFence(other, this.bundle);
    } catch (refused) {
      if (!(refused instanceof Ends)) throw refused;
      verdict = refused.message;
    }
    other.client.disconnect();
    const { wire } = this.bundle;
    const must = expect === "passes" ? expect
      : `FENCE version expected ${wire} found ${expect.refuses}`;
    if (verdict !== must) throw new Broken(`expected ${must}, got ${verdict}`);
  }

  async look(part, expect) {
    let reply;
    let must = expect;
    if (part === "*") {
      const keys = await this.server.keys(this.base);
      reply = keys.map((key) => Buffer.from(key.slice(this.base.length)));
      must = { set: expect };
    } else {
      const [command, ...rest] = READING[part] ?? (part.startsWith("g:") ? SORTED : HASH);
      reply = await this.server.call(command, this.base + part, ...rest);
      if (command === "HGETALL") must = { map: expect };
      if (command === "SMEMBERS" && Array.isArray(expect)) must = { set: expect };
    }
    try {
      this.compare(must, reply);
    } catch (why) {
      throw new Broken(`${part}: ${why.message}`);
    }
  }
}

/** Prints a line for each contract and the count; answers how many hold, of how many driven. */
async function driveSet(server, bundle, args, which) {
  const [folder, line, closing] = SETS[which];
  const counts = { ok: 0, FAIL: 0, skip: 0 };
  for (const file of fs.readdirSync(path.join(HOME, folder)).sort()) {
    if (!file.endsWith(".json")) continue;
    const contract = JSON.parse(fs.readFileSync(path.join(HOME, folder, file), "utf8"));
    if (args.only && contract.name !== args.only) continue;
    let [verdict, words] = ["ok", contract.why];
    if (contract.needs === "own_server" && !args["own-server"]) {
      [verdict, words] = ["skip", "needs a server of its own"];
    } else {
      try {
        await new Drive(server, bundle, args, contract).run();
      } catch (why) {
        if (!(why instanceof Broken)) throw why;
        [verdict, words] = ["FAIL", why.message];
      }
    }
    counts[verdict] += 1;
    const number = String(parseInt(file, 10)).padStart(2);
    const named = `${contract.name.padEnd(14)} ${verdict.padEnd(4)}`;
    console.log(`${line.padEnd(5)} ${number} ${named}  ${words}`);
  }
  const total = counts.ok + counts.FAIL;
  const skipped = counts.skip ? `, ${counts.skip} skipped` : "";
  if (total || skipped) console.log(`${closing} ${counts.ok}/${total}${skipped}`);
  return [counts.ok, total];
}

function parse() {
  const text = { type: "string" };
  const options = {
    url: text, bundle: text, set: { ...text, default: "seed" }, only: text, sabotage: text,
    "own-server": { type: "boolean", default: false },
  };
  const { values } = parseArgs({ options });
  const known = ["seed", "second", "all"].includes(values.set)
    && [undefined, "token", "kind", "ring", "wake"].includes(values.sabotage);
  if (!values.url || !values.bundle || !known) throw new Error("see the head of this file");
  return values;
}

async function main() {
  let args;
  try {
    args = parse();
  } catch (usage) {
    throw new Ends(2, `USAGE ${usage.message}`);
  }
  const bundle = loadBundle(args.bundle);
  const server = new Server(args.url);
  try {
    await server.open().catch((lost) => { throw new Ends(5, `SERVER ${lost.message}`); });
    await passFence(server, bundle);
    let [held, total] = [0, 0];
    for (const which of Object.keys(SETS)) {
      if (args.set !== which && args.set !== "all") continue;
      const [ok, all] = await driveSet(server, bundle, args, which);
      [held, total] = [held + ok, total + all];
    }
    return held === total && total > 0 ? 0 : 1;
  } finally {
    server.client.disconnect();
  }
}

main().then(
  (code) => { process.exitCode = code; },
  (end) => {
    console.error(end instanceof Ends ? end.message : end);
    process.exitCode = end instanceof Ends ? end.code : 5;
  },
);
