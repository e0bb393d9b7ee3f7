//! Calls that no typed call can make: each must be refused by class, and write nothing.

use std::fmt;
use std::sync::LazyLock;

use emq_scripts::{CONTRACTS, Contract, RefusalClass, ScriptName};

use crate::support::{job, lane};

/// One malformed call.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) script: ScriptName,
    /// How many of the contract's keys it is given.
    pub(crate) keys: usize,
    /// The arguments; `base` is put before the rest where the script takes it.
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) class: RefusalClass,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} keys:", self.script, self.keys)?;
        let args = self.args.iter().map(|arg| arg[..arg.len().min(40)].escape_ascii());
        args.into_iter().try_for_each(|arg| write!(f, " '{arg}'"))
    }
}

/// The scripts that this test leaves to others: a minting node is no part of a queue, a doctor
/// works on queues that aren't as they should be, what obliterate leaves half-way is its own
/// affair, and schedules have tests of their own.
const NOT_MODELLED: [&str; 7] = [
    "node_lease",
    "doctor",
    "obliterate",
    "tick",
    "timetable_put",
    "timetable_pause",
    "timetable_remove",
];

/// All of them, the same in each run.
pub(crate) fn faults() -> &'static [Fault] {
    static FAULTS: LazyLock<Vec<Fault>> = LazyLock::new(|| {
        let modelled = |it: &&Contract| !NOT_MODELLED.contains(&it.script.as_str());
        CONTRACTS.iter().filter(modelled).flat_map(faults_of).collect()
    });
    &FAULTS
}

fn faults_of(contract: &Contract) -> Vec<Fault> {
    let script = contract.script;
    let good: Vec<Vec<u8>> = contract.args.iter().filter_map(|arg| good(script, arg)).collect();
    let keys = contract.keys.len();
    let fault = |args, class| Fault { script, keys, args, class };
    let mut faults = vec![Fault { keys: keys - 1, ..fault(good.clone(), RefusalClass::Arg) }];
    if let Some((_, short)) = good.split_last() {
        faults.push(fault(short.to_vec(), RefusalClass::Arg));
    }
    if contract.tail.is_none() {
        let long = good.iter().cloned().chain([b"more".to_vec()]).collect();
        faults.push(fault(long, RefusalClass::Arg));
    }
    let named = contract.args.iter().filter(|arg| **arg != "base");
    for (at, arg) in named.enumerate() {
        for (value, class) in bad(script, arg) {
            let mut args = good.clone();
            args[at] = value;
            faults.push(fault(args, class));
        }
    }
    match contract.tail {
        Some("pairs") => faults
            .extend(bad_pairs().map(|pairs| {
                fault(good.iter().cloned().chain(pairs).collect(), RefusalClass::Arg)
            })),
        Some("runs") => faults.extend(
            bad_runs()
                .map(|(runs, class)| fault(good.iter().cloned().chain(runs).collect(), class)),
        ),
        Some(_) => faults.extend(
            bad_items()
                .map(|(count, items, class)| fault([words(&["0", count]), items].concat(), class)),
        ),
        None => {}
    }
    if script == ScriptName::Schedule {
        let mut args = good.clone();
        (args[3], args[4]) = (b"4000000000000".to_vec(), b"3600000".to_vec());
        faults.push(fault(args, RefusalClass::Arg));
    }
    if contract.tail == Some("pairs") {
        // Arguments come before policy.
        let mut args = good;
        args[0] = lane(0).to_string().into_bytes();
        faults.push(fault([args, words(&["kind", ""])].concat(), RefusalClass::Arg));
    }
    faults
}

/// A value that the script takes; `None` for `base`.
fn good(script: ScriptName, arg: &str) -> Option<Vec<u8>> {
    Some(match arg {
        "base" => return None,
        "id" => job(0).to_string().into_bytes(),
        "group" => lane(0).to_string().into_bytes(),
        "lease_ms" => b"3600000".to_vec(),
        // As many items as follow: none.
        "durable" | "scheduled" | "force_dead" | "count" | "delay_ms" | "at_ms" => b"0".to_vec(),
        "ticket" | "before_id" | "from" => Vec::new(),
        "token" | "max_attempts" | "limit" | "lost_cap" | "weight" | "claim" | "promote"
        | "reap" => b"1".to_vec(),
        "payload" | "error" | "data" => b"x".to_vec(),
        other => panic!("{script} takes {other}: give it a good value here, and bad ones below"),
    })
}

/// Values that it must refuse.
fn bad(script: ScriptName, arg: &str) -> Vec<(Vec<u8>, RefusalClass)> {
    let admits = matches!(
        script,
        ScriptName::Enqueue | ScriptName::LaneEnqueue | ScriptName::Schedule | ScriptName::Cancel
    );
    let numbers = ["", "-1", "1.5", "1e3", "0x1", " 1", "x", "99999999999999999999"];
    let zero = ["0"];
    let (values, limit): (Vec<&str>, Option<&str>) = match arg {
        "id" if admits => (vec!["", "JOB", "JOB0000000000000", "JOB00000-00000"], None),
        // Without an id it moves a backlog.
        "id" if script == ScriptName::LaneReassign => (vec!["JOB", "JOB0000000000000"], None),
        "id" => (vec!["", "JOB", "JOB0000000000000"], None),
        "group" | "from" => (vec!["TEN", "ten00000000000", "TEN000000000000"], None),
        "durable" | "scheduled" | "force_dead" => (vec!["", "2", "yes"], None),
        "lease_ms" if script == ScriptName::Checkpoint => (numbers.to_vec(), None),
        "delay_ms" | "at_ms" => (numbers.to_vec(), None),
        "count" => (numbers[..7].to_vec(), Some("401")),
        "claim" | "promote" | "reap" => (numbers[..7].to_vec(), Some("201")),
        "limit" if script == ScriptName::LaneLimit => (numbers.to_vec(), None),
        "limit" => {
            let many = matches!(script, ScriptName::Purge | ScriptName::Drain);
            ([&numbers[..7], &zero].concat(), Some(if many { "1001" } else { "201" }))
        }
        "lease_ms" | "token" | "max_attempts" | "lost_cap" | "weight" => {
            // A token has no bound: it is compared as text.
            let numbers = if arg == "token" { &numbers[..7] } else { &numbers[..] };
            ([numbers, &zero, &["01"]].concat(), None)
        }
        "before_id" => (vec!["JOB", "JOB000000000000"], None),
        _ => (Vec::new(), None),
    };
    let mut bad: Vec<_> =
        values.iter().map(|value| (value.as_bytes().to_vec(), RefusalClass::Arg)).collect();
    bad.extend(limit.map(|limit| (limit.as_bytes().to_vec(), RefusalClass::Limit)));
    match (script, arg) {
        (ScriptName::Claim | ScriptName::LaneClaim | ScriptName::Turn, "ticket") => {
            bad.push((vec![b't'; 257], RefusalClass::Arg));
        }
        (_, "data") => bad.push((vec![b'd'; 65_537], RefusalClass::Arg)),
        (ScriptName::Enqueue | ScriptName::LaneEnqueue | ScriptName::Schedule, "id") => {
            bad.push((lane(0).to_string().into_bytes(), RefusalClass::Kind));
        }
        _ => {}
    }
    bad
}

fn bad_pairs() -> impl Iterator<Item = Vec<Vec<u8>>> {
    let pairs: [&[&str]; 10] = [
        &["kind"],
        &["kind", ""],
        &["unique", ""],
        &["colour", "red"],
        &["state", "dead"],
        &["kind", "a", "kind", "b"],
        &["kind", "a", "headers"],
        &["max_attempts", "0"],
        &["max_attempts", "2147483649"],
        &["max_attempts", "many"],
    ];
    pairs.into_iter().map(words)
}

/// The count that is given, the items, and the class of the refusal.
fn bad_items() -> impl Iterator<Item = (&'static str, Vec<Vec<u8>>, RefusalClass)> {
    let (id, tenant) = (job(0).to_string(), lane(0).to_string());
    let item = |fields: [&str; 5], pairs: &[&str]| words(&[&fields[..], pairs].concat());
    let whole = item([&id, "x", "", "0", "0"], &[]);
    let mut bad = vec![
        ("1", item(["JOB", "x", "", "0", "0"], &[])),
        ("1", item([&id, "x", "TEN", "0", "0"], &[])),
        ("1", item([&id, "x", "", "-1", "0"], &[])),
        ("1", item([&id, "x", "", "soon", "0"], &[])),
        ("1", item([&id, "x", "", "0", "1"], &["kind"])),
        ("1", item([&id, "x", "", "0", "4"], &["kind", "a"])),
        ("1", item([&id, "x", "", "0", "-2"], &[])),
        ("1", item([&id, "x", "", "0", "2"], &["kind", ""])),
        ("1", item([&id, "x", "", "0", "0"], &["kind", "a"])),
        ("1", whole[..4].to_vec()),
        ("2", whole.clone()),
        ("0", whole.clone()),
        // Arguments of all items come before the policy of any.
        (
            "2",
            [item([&tenant, "x", "", "0", "0"], &[]), item(["JOB", "", "", "0", "0"], &[])]
                .concat(),
        ),
        // Whole items before a malformed one aren't admitted either.
        ("2", [whole.clone(), item([&id, "x", "", "0", "2"], &["colour", "red"])].concat()),
    ];
    bad.dedup();
    let mut huge = whole;
    huge[1] = vec![b'p'; 1024 * 1024 + 1];
    let bad = bad.into_iter().map(|(count, items)| (count, items, RefusalClass::Arg));
    bad.chain([("1", huge, RefusalClass::Limit)])
}

/// Runs of a turn, and the class of the refusal.
fn bad_runs() -> impl Iterator<Item = (Vec<Vec<u8>>, RefusalClass)> {
    let id = job(0).to_string();
    let id = id.as_str();
    let bad: [&[&str]; 16] = [
        &["finish", "", "1", id, "1"],
        &["complete"],
        &["complete", "", "0"],
        &["complete", "", "1", id],
        &["complete", "", "2", id, "1"],
        &["complete", "", "1", id, "1", "more"],
        &["complete", "", "1", "JOB", "1"],
        &["complete", "", "1", id, "0"],
        &["complete", "", "x", id, "1"],
        &["release", "", "1", id, "one"],
        &["extend", "", "1", id, ""],
        &["retry", "", "1", id, "1"],
        &["retry", "", "1", id, "1", "soon", "why", "0"],
        &["retry", "", "1", id, "1", "0", "why", "2"],
        // What is whole isn't done when what follows it is malformed.
        &["complete", "", "1", id, "1", "complete", "", "1", id, "0"],
        &["extend", "", "1", id, "1", "complete", "", "1", id, "1"],
    ];
    let bad: Vec<_> = bad.into_iter().map(|runs| (words(runs), RefusalClass::Arg)).collect();
    let long = ["complete", "extend"].map(|verb| {
        let items = [id, "1"].repeat(201);
        (words(&[&[verb, "", "201"][..], &items].concat()), RefusalClass::Limit)
    });
    bad.into_iter().chain(long)
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}
