//! Turns that were broken on purpose: the comparison must notice each of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use emq_scripts::Bundle;

/// What is broken, in words; a text that `turn.lua` must have; and what takes its place.
pub(crate) type Mutant = (&'static str, &'static str, &'static str);

pub(crate) const MUTANTS: &[Mutant] = &[
    ("settles ask for no token", "fields[2] == token and ", ""),
    ("settles ask for no ticket", " and (fields[3] or '') == holder", ""),
    ("an id settles twice at once", "if seen[id] then", "if false then"),
    ("completes keep unique keys", "call('HDEL', unique, unpack(owned, 1, n_owned))", ""),
    ("completes keep rows", "call('DEL', unpack(rows, 1, n_rows))", ""),
    ("a freed slot opens no lane", "leases == tops[group] and call(", "false and call("),
    ("a lane that opens wakes nobody", "turning, wakes = turning + #entering, true", ""),
    ("a settle gives no lease back", "leases > 0 and leases - 1 or 0", "leases"),
    ("a lane without leases keeps a count", "call('HDEL', gactive, unpack(none))", ""),
    ("a retry that is the first due wakes nobody", "first_due, wakes = due, true", ""),
    ("a retry knows only the call's cap", "tonumber(fields[5]) or max_attempts", "max_attempts"),
    ("a retry counts losses as failures", " - (tonumber(fields[6]) or 0)", ""),
    (
        "a flat release blames the job",
        "(tonumber(fields[5]) or 0) + 1",
        "(tonumber(fields[5]) or 0)",
    ),
    ("a flat release wakes nobody", "verdict, wakes, flat = 1, true, flat + 1", "verdict = 1"),
    (
        "a laned release blames the job",
        "(tonumber(alone[5]) or 0) + 1",
        "(tonumber(alone[5]) or 0)",
    ),
    ("a laned release wakes nobody", "wakes = wakes or runnable", ""),
    ("a late complete leaves its emptied lane", "call('LREM', ring, '-1', group)", ""),
    ("the ring's length is old", "    turning = call('LLEN', ring)", ""),
    ("extensions tell of no cancel", "verdict = fields[4] and 2 or 1", "verdict = 1"),
    ("extensions extend nothing", "call('ZADD', active, unpack(held, 1, n_held))", ""),
    ("no reaping", "local reaps = reap > 0 and", "local reaps = reap > 200 and"),
    ("reaping counts no loss", "local lost = (tonumber(fields[3]) or 0) + 1", "local lost = 1"),
    ("reaped jobs are not told", "n_returned, n_buried = #back, #buried", ""),
    ("buried jobs are told as returned", "#back, #buried", "#back + #buried, 0"),
    ("promoted jobs are not told", "n_promoted = #rows", ""),
    ("no promotion while paused", "local promotes =", "local promotes = not facts[1] and"),
    ("moved jobs are not seen", "  flat = call('ZCARD', pending)", ""),
    ("tokens are counted anew", "tokens = math.max(tokens, math.min(runnable, 64))", ""),
    ("a batch pushes one token", "math.min(runnable, 64) do", "math.min(runnable, 1) do"),
    ("claims while paused", "if claim > 0 and not facts[1]", "if claim > 0"),
    ("cascades while paused", "if tokens == 0 and not facts[1]", "if tokens == 0"),
    ("no cascade", "if tokens == 0 and not facts[1]", "if false"),
    ("next knows no schedule", "if first_due and (not soonest", "if false and (not soonest"),
    ("a flat turn is forgotten", "        left = turning", ""),
    ("lane turns don't count", "turning or turning + 1) - 1", "turning or turning + 1)"),
    ("flat waits for lanes that left", "math.min(left, stays and turning or turning + 1)", "left"),
    ("flat waits for an empty ring", "(left == 0 or turning == 0)", "left == 0"),
    ("flat comes first always", "(left == 0 or turning == 0)", "true"),
    ("weights don't count", "not stays or spent >= share", "true"),
    ("a share is a job too long", "spent >= share", "spent > share"),
    ("interrupted shares are lost", "local interrupted = spent_lane", "local interrupted = nil"),
    (
        "a full lane stays",
        "local stays = more and (not ceiling or out + 1 < ceiling)",
        "local stays = more",
    ),
    ("an emptied lane stays", "local stays = more and", "local stays ="),
    ("a full lane serves", "if id and (not ceiling or out < ceiling)", "if id"),
    (
        "the ring turns backwards",
        "back[n_back + i] = tail[i]",
        "back[n_back + i] = tail[n_tail + 1 - i]",
    ),
    ("claims count no lease", "counted[group] = out + 1", "counted[group] = out"),
    ("an old holder stays", "if token > 1 then", "if false then"),
    ("ids without a pending row are claimed", "fields[1] == 'pending' and fields[3]", "fields[3]"),
    ("an empty ring leaves what is claimed", "call('ZREMRANGEBYRANK', pending, '0', met - 1)", ""),
    ("an empty ring counts the flat set wrong", "flat - met, met > 0", "flat, met > 0"),
    (
        "an empty ring pops more than it claims",
        "call('ZPOPMIN', pending)",
        "call('ZPOPMIN', pending, 2)",
    ),
    ("next knows no new lease", "elseif jobs[1] and not", "elseif false and not"),
    ("next knows old leases only", "if reaps or settled + extended > 0 then", "if reaps then"),
    ("a full lane is popped", "and (not ceiling or out < ceiling) then", "then"),
    ("an emptied lane that was popped stays", "if full < n_guessed then", "if false then"),
    ("a popped lane leaves whatever it has", "call('EXISTS', names[i]) == 0", "true"),
    ("popped lanes are looked at too late for the flat set", "(flat > 0 and left == 0)", "false"),
    ("popped lanes come again unseen", "dropped or head > size", "dropped"),
    ("leases counted late are reaped early", "(reaps or promotes or turning > claim)", "false"),
    ("a late settle counts old leases", "counted, stored = {}, {}", ""),
    ("a lane's second look starts at its head", "gone, gone + want", "0, want"),
    ("the flat set's second look starts at its head", "flat_taken, flat_taken + want", "0, want"),
];

/// The bundle with this change.
///
/// # Panics
/// When the script hasn't got the text any more: the mutant must follow the script.
pub(crate) fn bundle((name, from, to): Mutant) -> Arc<Bundle> {
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let dir = tempfile::tempdir().expect("a temporary folder");
    for entry in fs::read_dir(&lua).expect("the bundle") {
        let path = entry.expect("a file of the bundle").path();
        if path.is_file() {
            let copy = dir.path().join(path.file_name().expect("a name"));
            fs::copy(&path, copy).expect("a copy");
        }
    }
    let path = dir.path().join("turn.lua");
    let text = fs::read_to_string(&path).expect("the script");
    assert!(text.contains(from), "{name}: turn has no `{from}`; let the mutant follow it");
    fs::write(&path, text.replace(from, to)).expect("the mutant");
    Bundle::from_dir(dir.path()).expect("still a bundle")
}
