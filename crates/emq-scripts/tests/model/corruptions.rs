//! Queues that are broken in one way each: the laws must notice.

use super::snapshot::{Content, Snapshot};
use super::step::Step;
use crate::support::{job, lane};

/// What is broken, what the law says then, and the hand that breaks it: it gets the same sound
/// queue as before and after a step, which it names.
type Corruption = (&'static str, &'static str, fn(&mut Snapshot, &mut Snapshot) -> Step);

/// Over a queue in which job 0 is leased, 1 pending and unique, 2 leased and 3 pending in lane 0,
/// 4 scheduled, and a token stands.
pub(crate) const CORRUPTIONS: &[Corruption] = &[
    ("a job in two sets", "belongs in active", |_, after| {
        zset(after, "pending", 0, 0);
        Step::Nudge
    }),
    ("a job in no set", "belongs in pending", |_, after| {
        after.keys.remove("pending");
        Step::Nudge
    }),
    ("a job in another set than its state's", "belongs in dead", |_, after| {
        field(after, &row(1), "state", "dead");
        Step::Nudge
    }),
    ("an id without a row", "has no row", |_, after| {
        zset(after, "pending", 9, 0);
        Step::Nudge
    }),
    ("a pending job with a score", "has the score 7", |_, after| {
        zset(after, "pending", 1, 7);
        Step::Nudge
    }),
    ("an unknown field", "unknown field colour", |_, after| {
        field(after, &row(1), "colour", "red");
        Step::Nudge
    }),
    ("an empty field", "an empty kind", |_, after| {
        field(after, &row(1), "kind", "");
        Step::Nudge
    }),
    ("a token that fell", "the token of", |before, _| {
        field(before, &row(0), "attempts", "2");
        Step::Nudge
    }),
    ("a job excused more often than claimed", "is excused 2 times", |_, after| {
        field(after, &row(0), "forgiven", "2");
        Step::Nudge
    }),
    ("a lease that isn't counted", "gactive says", |_, after| {
        after.keys.remove("gactive");
        Step::Nudge
    }),
    ("a count of no leases", "gactive says", |_, after| {
        field(after, "gactive", lane(1).as_str(), "0");
        Step::Nudge
    }),
    ("a serviceable lane out of the ring", "the ring is", |_, after| {
        after.keys.remove("ring");
        Step::Nudge
    }),
    ("a lane twice in the ring", "the ring is", |_, after| {
        list(after, "ring", &[lane(0).as_str(), lane(0).as_str()]);
        Step::Nudge
    }),
    ("a full lane in the ring", "the ring is", |_, after| {
        field(after, "glimit", lane(0).as_str(), "1");
        Step::Nudge
    }),
    ("a parked lane in the ring", "the ring is", |_, after| {
        let parked = [lane(0).to_string()].into();
        after.keys.insert("paused".to_owned(), Content::Set(parked));
        Step::Nudge
    }),
    ("a unique key without an owner", "unique says", |_, after| {
        field(after, "unique", "other key", job(1).as_str());
        Step::Nudge
    }),
    ("an owner without its unique key", "unique says", |_, after| {
        after.keys.remove("unique");
        Step::Nudge
    }),
    ("too many tokens", "65 tokens", |_, after| {
        list(after, "wake", &["1"; 65]);
        Step::Nudge
    }),
    ("work that is new, and no token", "became runnable", |before, after| {
        before.keys.remove("pending");
        after.keys.remove("wake");
        Step::Nudge
    }),
    ("work left behind by a claim, and no token", "work is left behind", |_, after| {
        after.keys.remove("wake");
        Step::Claim { lease_ms: 1, ticket: None }
    }),
    ("work when a queue is resumed, and no token", "work is left behind", |_, after| {
        after.keys.remove("wake");
        Step::QueueResume
    }),
    ("a job that is the first to be due, and no token", "first to be due", |before, after| {
        before.keys.remove("schedule");
        after.keys.remove("wake");
        Step::Nudge
    }),
];

fn row(n: u64) -> String {
    format!("job:{}", job(n))
}

fn zset(snapshot: &mut Snapshot, name: &str, n: u64, score: u64) {
    let mut members = snapshot.zset(name);
    members.insert(job(n).to_string(), score);
    snapshot.put(name, Content::Zset(members));
}

fn field(snapshot: &mut Snapshot, name: &str, field: &str, value: &str) {
    let fields = snapshot.hash(name).into_iter();
    let mut fields: std::collections::BTreeMap<_, _> =
        fields.map(|(field, value)| (field, value.into_bytes())).collect();
    fields.insert(field.to_owned(), value.as_bytes().to_vec());
    snapshot.put(name, Content::Hash(fields));
}

fn list(snapshot: &mut Snapshot, name: &str, items: &[&str]) {
    let items = items.iter().map(|item| (*item).to_owned()).collect();
    snapshot.put(name, Content::List(items));
}
