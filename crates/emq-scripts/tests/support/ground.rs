//! A server with a job in every place, and arguments that each script accepts there.

use emq_scripts::{Contract, Fenced, ScriptName};
use emq_testkit::Valkey;
use emq_wire::{Cmd, Pipeline, Reply};

use super::keyspace::{Snapshot, snapshot};
use super::{fenced, job, lane, queue};

pub(crate) type Args = Vec<Vec<u8>>;

/// A moment that no test reaches, in unix milliseconds.
const LATER_MS: &str = "4000000000000";

/// A schedule whose next tick is due.
const NIGHTLY: [(&str, &str); 8] = [
    ("rev", "7"),
    ("next", "1000"),
    ("last", "0"),
    ("paused", "0"),
    ("mark", "1"),
    ("timing", "every 1000 0"),
    ("options", "{}"),
    ("payload", "p"),
];

/// A queue with a job in every place, a schedule, and the version.
pub(crate) struct Ground {
    pub(crate) valkey: Valkey,
    pub(crate) fenced: Fenced,
    pub(crate) seeded: Snapshot,
}

impl Ground {
    pub(crate) async fn new() -> Ground {
        let valkey = Valkey::start().unwrap();
        let fenced = fenced(&valkey).await;
        let mut ground = Ground { valkey, fenced, seeded: Snapshot::new() };
        ground.seed().await;
        ground.seeded = ground.now().await;
        ground
    }

    pub(crate) async fn now(&self) -> Snapshot {
        snapshot(self.fenced.connection(), "*").await
    }

    /// Plants the same keyspace each time: a flat job and a laned one in each place.
    pub(crate) async fn seed(&self) {
        let keys = queue("orders");
        let mut pipeline = Pipeline::new();
        let mut push = |words: &[&str]| {
            let cmd = Cmd::new(words[0]);
            pipeline.push(words[1..].iter().fold(cmd, Cmd::arg));
        };
        push(&["FLUSHALL"]);
        push(&["SET", "{emq}:version", emq_scripts::WIRE_VERSION]);
        push(&["ZADD", "{emq}:nodes", "4000000000000", "0"]);
        push(&["HSET", "{emq}:nodes:owners", "0", "me"]);
        let group = lane(1).to_string();
        let places = [
            ("pending", keys.pending().to_owned(), "0"),
            ("active", keys.active().to_owned(), "1"),
            ("scheduled", keys.schedule().to_owned(), "1"),
            ("dead", keys.dead().to_owned(), "0"),
        ];
        for (at, (state, set, score)) in places.iter().enumerate() {
            for (laned, n) in [(false, 1 + at as u64), (true, 11 + at as u64)] {
                let id = job(n).to_string();
                let set =
                    if laned && *state == "pending" { keys.lane(&lane(1)) } else { set.clone() };
                push(&["ZADD", &set, score, &id]);
                let row = keys.job(&job(n));
                push(&["HSET", &row, "state", state, "attempts", "1", "payload", "p"]);
                push(&["HSET", &row, "unique", &id]);
                push(&["HSET", keys.unique(), &id, &id]);
                if laned {
                    push(&["HSET", &row, "group", &group]);
                }
            }
        }
        push(&["HSET", keys.gactive(), &group, "1"]);
        push(&["HSET", keys.glimit(), &group, "2"]);
        push(&["RPUSH", keys.ring(), &group]);
        push(&["HSET", keys.timetable(), ":rev", "7", ":mark:1", "nightly"]);
        for (field, value) in NIGHTLY {
            push(&["HSET", keys.timetable(), &format!("nightly:{field}"), value]);
        }
        for reply in self.fenced.connection().pipeline(pipeline).await.unwrap() {
            reply.into_result().unwrap();
        }
    }

    /// Makes the queue one that the script has to do with: only a paused one can go, and only a
    /// fault is mended.
    pub(crate) fn ready_for(&self, contract: &Contract) {
        let (keys, id) = (queue("orders"), job(1));
        match contract.script {
            ScriptName::Obliterate => self.valkey.cli(&["HSET", keys.meta(), "paused", "1"]),
            ScriptName::Doctor => self.valkey.cli(&["ZADD", keys.dead(), "0", id.as_str()]),
            _ => return,
        }
        .unwrap();
    }

    /// Calls a script by its digest.
    pub(crate) async fn call(&self, contract: &Contract, keys: &Args, args: &Args) -> Reply {
        let script = self.fenced.bundle().script(contract.script).clone();
        self.fenced.connection().eval(&script, keys, args).await.unwrap()
    }
}

pub(crate) fn bytes(text: impl AsRef<[u8]>) -> Vec<u8> {
    text.as_ref().to_vec()
}

pub(crate) fn keys_of(contract: &Contract) -> Args {
    contract.keys.iter().map(|key| bytes(key.to_string().replace("{q}", "{orders}"))).collect()
}

/// Arguments that the script takes: on the active job, held under token 1 without a ticket.
pub(crate) fn good_args(contract: &Contract) -> Args {
    let value = |name: &str| match name {
        "base" => bytes("emq:{orders}:"),
        "id" if contract.script.as_str().ends_with("enqueue") => bytes(job(50).as_bytes()),
        "id" if contract.script.as_str() == "schedule" => bytes(job(50).as_bytes()),
        "id" if contract.script.as_str() == "tick" => bytes(job(50).as_bytes()),
        "id" if contract.script.as_str() == "requeue" => bytes(job(4).as_bytes()),
        "id" if contract.script.as_str() == "lane_reassign" => bytes(job(1).as_bytes()),
        "id" if contract.script.as_str() == "remove" => bytes(job(1).as_bytes()),
        "id" => bytes(job(2).as_bytes()),
        "group" => bytes(lane(2).as_bytes()),
        "payload" | "data" | "error" | "owner" => bytes("text"),
        "ticket" | "before_id" | "node" | "from" => Vec::new(),
        "token" | "lease_ms" | "max_attempts" | "lost_cap" | "limit" | "weight" | "delay_ms"
        | "claim" | "promote" | "reap" => bytes("1"),
        "grace_ms" | "durable" | "scheduled" | "force_dead" | "at_ms" | "count" => bytes("0"),
        "force" | "repair" => bytes("1"),
        "look" => bytes("leases"),
        // The schedule of the seed, whose tick is due; in the put another one, to be new.
        "name" if contract.script.as_str() == "timetable_put" => bytes("weekly"),
        "name" => bytes("nightly"),
        "rev" if contract.script.as_str() == "tick" => bytes("7"),
        "next_ms" if contract.script.as_str() == "timetable_put" => bytes(LATER_MS),
        "next_ms" | "from_ms" if contract.script.as_str() == "tick" => bytes("1000"),
        "following_ms" => bytes("2000"),
        "paused" => bytes("1"),
        "rev" | "next_ms" | "until_ms" => bytes("0"),
        "mark" => bytes("77"),
        "timing" => bytes("every 1000 0"),
        "options" => bytes("{}"),
        other => panic!("no sample for {other}"),
    };
    contract.args.iter().map(|name| value(name)).collect()
}

/// As [`good_args`], with items or runs where the script takes them: a call that has to write.
pub(crate) fn writing_args(contract: &Contract) -> Args {
    let mut args = good_args(contract);
    if contract.tail == Some("items") {
        args[2] = bytes("1");
        args.extend([job(50).as_str(), "p", "", "0", "0"].map(bytes));
    }
    if contract.tail == Some("subjects") {
        args[1] = bytes("jobs");
        args.extend(["", job(1).as_str()].map(bytes));
    }
    if contract.tail == Some("runs") {
        args.extend(["retry", "", "1", job(2).as_str(), "1", "1", "text", "0"].map(bytes));
        args.extend(["complete", "", "1", job(12).as_str(), "1"].map(bytes));
        args.extend(["extend", "", "1", job(12).as_str(), "1"].map(bytes));
    }
    args
}
