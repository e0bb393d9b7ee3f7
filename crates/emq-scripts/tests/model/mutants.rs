//! Bundles that were broken on purpose: the comparison must notice each of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use emq_scripts::{Bundle, ScriptName};

/// One script with one change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    /// What is broken, in words.
    pub(crate) name: &'static str,
    pub(crate) script: ScriptName,
    /// This text, which the script must have,
    pub(crate) from: &'static str,
    /// becomes this one, wherever it stands.
    pub(crate) to: &'static str,
}

const fn mutant(
    name: &'static str,
    script: ScriptName,
    from: &'static str,
    to: &'static str,
) -> Mutant {
    Mutant { name, script, from, to }
}

/// All of them.
pub(crate) const MUTANTS: &[Mutant] = &[
    mutant("complete asks for no token", ScriptName::Complete, "fields[2] ~= token or ", ""),
    mutant(
        "complete asks for no ticket",
        ScriptName::Complete,
        " or (fields[3] or '') ~= ticket",
        "",
    ),
    mutant(
        "a late complete leaves the lane that it emptied in the ring",
        ScriptName::Complete,
        "call('LREM', ring, '-1', group)",
        "",
    ),
    mutant(
        "a late complete leaves the id in the morgue",
        ScriptName::Complete,
        "call('ZREM', KEYS[4], id)",
        "",
    ),
    mutant("complete keeps the unique key", ScriptName::Complete, "if owner then", "if false then"),
    mutant(
        "complete opens a lane and wakes nobody",
        ScriptName::Complete,
        "if tokens == 0 then",
        "if false then",
    ),
    mutant("enqueue wakes nobody", ScriptName::Enqueue, "if tokens == 0 then", "if false then"),
    mutant(
        "lane_enqueue leaves its lane out of the ring",
        ScriptName::LaneEnqueue,
        "call('RPUSH', ring, group)",
        "",
    ),
    mutant(
        "schedule takes an equal due time for an earlier one",
        ScriptName::Schedule,
        "due < tonumber(head[2])",
        "due <= tonumber(head[2])",
    ),
    mutant("enqueue_many admits an id twice", ScriptName::EnqueueMany, "seen[id] or ", ""),
    mutant(
        "enqueue_many pushes one token for a batch",
        ScriptName::EnqueueMany,
        "math.min(runnable, 64)",
        "math.min(runnable, 1)",
    ),
    mutant("claim passes no wake on", ScriptName::Claim, "if cascade then", "if false then"),
    mutant("claim keeps an old holder", ScriptName::Claim, "call('HDEL', row, 'holder')", ""),
    mutant(
        "lane_claim counts no lease",
        ScriptName::LaneClaim,
        "call('HSET', gactive, group, format('%.0f', leases + 1))",
        "",
    ),
    mutant(
        "lane_claim doesn't rotate",
        ScriptName::LaneClaim,
        "call('LMOVE', ring, ring, 'LEFT', 'RIGHT')",
        "",
    ),
    mutant(
        "lane_claim keeps a lane at its ceiling in the ring",
        ScriptName::LaneClaim,
        "(ceiling == 0 or leases + 1 < ceiling)",
        "true",
    ),
    mutant(
        "lane_claim lets a share last a job longer",
        ScriptName::LaneClaim,
        "spent < weight",
        "spent <= weight",
    ),
    mutant(
        "retry counts losses as failures",
        ScriptName::Retry,
        " - (tonumber(fields[6]) or 0)",
        "",
    ),
    mutant(
        "retry knows only the caller's cap",
        ScriptName::Retry,
        "tonumber(fields[5]) or tonumber(max_attempts)",
        "tonumber(max_attempts)",
    ),
    mutant(
        "retry becomes the first to be due and wakes nobody",
        ScriptName::Retry,
        "(earliest or reopens)",
        "reopens",
    ),
    mutant(
        "release blames the job",
        ScriptName::Release,
        "(tonumber(fields[5]) or 0) + 1",
        "(tonumber(fields[5]) or 0)",
    ),
    mutant(
        "extend tells of no cancel",
        ScriptName::Extend,
        "return fields[4] and 2 or 1",
        "return 1",
    ),
    mutant(
        "checkpoint writes an empty field",
        ScriptName::Checkpoint,
        "if data ~= '' then",
        "if true then",
    ),
    mutant(
        "promote leaves the id in the schedule",
        ScriptName::Promote,
        "call('ZREM', schedule, unpack(ids))",
        "",
    ),
    mutant("reap buries a loss late", ScriptName::Reap, "lost >= lost_cap", "lost > lost_cap"),
    mutant("reap gives no lease back", ScriptName::Reap, "lane.leases = lane.leases - 1", ""),
    mutant(
        "cancel leaves the lane that it emptied in the ring",
        ScriptName::Cancel,
        "call('LREM', ring, '-1', group)",
        "",
    ),
    mutant(
        "requeue remembers a cancel",
        ScriptName::Requeue,
        "'lost', 'holder', 'cancel'",
        "'lost', 'holder'",
    ),
    mutant(
        "remove takes a job from its holder",
        ScriptName::Remove,
        "if state == 'active' then",
        "if false then",
    ),
    mutant("purge goes past its limit", ScriptName::Purge, "'0', limit - 1", "'0', limit"),
    mutant(
        "drain leaves emptied lanes in the ring",
        ScriptName::Drain,
        "call('LTRIM', ring, emptied, '-1')",
        "",
    ),
    mutant(
        "queue_resume wakes nobody",
        ScriptName::QueueResume,
        "if work > 0 and tokens == 0 then",
        "if false then",
    ),
    mutant(
        "turn moves no lease",
        ScriptName::Turn,
        "call('ZADD', active, unpack(held, 1, n_held))",
        "",
    ),
    mutant(
        "turn claims on a paused queue",
        ScriptName::Turn,
        "claim > 0 and not facts[1]",
        "claim > 0",
    ),
    mutant(
        "turn passes a wake on while the queue is paused",
        ScriptName::Turn,
        "tokens == 0 and not facts[1]",
        "tokens == 0",
    ),
    mutant(
        "turn gives no lease back",
        ScriptName::Turn,
        "leases > 0 and leases - 1 or 0",
        "leases",
    ),
    mutant("turn gives the flat set every turn", ScriptName::Turn, "left = turning", "left = 0"),
    mutant(
        "turn takes a late complete for a stale one",
        ScriptName::Turn,
        "if state ~= 'active' then",
        "if state ~= 'active' then verdict = -1 elseif false then",
    ),
    mutant(
        "lane_pause leaves the lane in the ring",
        ScriptName::LanePause,
        "call('LREM', ring, '1', group)",
        "",
    ),
];

impl Mutant {
    /// The bundle with this change.
    ///
    /// # Panics
    /// When the script hasn't got the text any more: the mutant must follow the script.
    pub(crate) fn bundle(&self) -> Arc<Bundle> {
        let Mutant { name, script, from, to } = *self;
        let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
        let dir = tempfile::tempdir().expect("a temporary folder");
        for entry in fs::read_dir(&lua).expect("the bundle") {
            let path = entry.expect("a file of the bundle").path();
            if path.is_file() {
                let copy = dir.path().join(path.file_name().expect("a name"));
                fs::copy(&path, copy).expect("a copy");
            }
        }
        let path = dir.path().join(format!("{script}.lua"));
        let text = fs::read_to_string(&path).expect("the script");
        assert!(text.contains(from), "{name}: {script} has no `{from}`; let the mutant follow it");
        fs::write(&path, text.replace(from, to)).expect("the mutant");
        Bundle::from_dir(dir.path()).expect("still a bundle")
    }
}
