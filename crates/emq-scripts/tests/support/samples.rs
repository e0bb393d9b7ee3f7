//! One call of every script, for tests that go through all of them.

use std::time::Duration;

use bytes::Bytes;
use emq_scripts::{
    AdmitOptions, Cancel, Checkpoint, Claim, Complete, Doctor, Drain, Enqueue, EnqueueMany, Extend,
    Extension, LaneClaim, LaneEnqueue, LaneLimit, LanePause, LaneReassign, LaneResume, LaneWeight,
    Look, ManyItem, Nudge, Obliterate, Promote, Purge, QueuePause, QueueResume, Reap, Release,
    Remove, Requeue, Retry, Schedule, ScriptCall, Seat, Settle, SettleOutcome, Tick,
    TimetablePause, TimetablePut, TimetableRemove, Turn, When,
};

use super::{job, lane};

/// Does something with a call of any type.
pub(crate) trait Visit {
    fn visit<C: ScriptCall>(&mut self, call: &C);
}

pub(crate) const ALL_OPTIONS: AdmitOptions<'static> = AdmitOptions {
    kind: Some("mail"),
    headers: Some("{}"),
    max_attempts: Some(3),
    unique: Some("key"),
};

/// Every call on a queue, with every optional part given.
pub(crate) fn each(visitor: &mut impl Visit) {
    let (id, group) = (job(1), lane(1));
    let (payload, options, durable) = (&b"payload"[..], ALL_OPTIONS, true);
    let (lease, ticket, token) = (Duration::from_secs(1), Some("me.1"), 1);
    let delay = Duration::from_secs(2);
    let none = AdmitOptions::default();
    let items = [
        ManyItem { id, payload, group: Some(group), run_at_ms: Some(7), options },
        ManyItem { id: job(2), payload, group: None, run_at_ms: None, options: none },
    ];
    visitor.visit(&Enqueue { id, payload, options, durable });
    visitor.visit(&LaneEnqueue { id, payload, group, options, durable });
    let when = When::In(delay);
    visitor.visit(&Schedule { id, payload, group: Some(group), when, options, durable });
    visitor.visit(&EnqueueMany { items: &items, durable });
    visitor.visit(&Claim { lease, ticket });
    visitor.visit(&LaneClaim { lease, ticket });
    visitor.visit(&Complete { id, token, ticket });
    let (max_attempts, error, force_dead) = (3, "why", false);
    visitor.visit(&Retry { id, token, ticket, delay, max_attempts, error, force_dead });
    visitor.visit(&Release { id, token, ticket });
    visitor.visit(&Extend { id, token, ticket, lease });
    visitor.visit(&Checkpoint { id, token, ticket, lease: Some(lease), data: b"half" });
    visitor.visit(&Promote { limit: 10 });
    visitor.visit(&Reap { limit: 10, lost_cap: 10 });
    visitor.visit(&Cancel { id });
    visitor.visit(&Requeue { id });
    visitor.visit(&Remove { id });
    visitor.visit(&Purge { before: Some(id), limit: 10 });
    visitor.visit(&Drain { scheduled: true, limit: 10 });
    visitor.visit(&QueuePause);
    visitor.visit(&QueueResume);
    visitor.visit(&LaneLimit { group, limit: 2 });
    visitor.visit(&LaneWeight { group, weight: 3 });
    visitor.visit(&LanePause { group });
    visitor.visit(&LaneResume { group });
    visitor.visit(&LaneReassign { id, to: Some(lane(2)) });
    visitor.visit(&Obliterate { force: true, limit: 10 });
    let seats = [Seat { lane: Some(group), id: Bytes::copy_from_slice(id.as_bytes()) }];
    visitor.visit(&Doctor { look: Look::Jobs(&seats), repair: true });
    let held = |outcome| Settle { id, token, ticket, outcome };
    let settles = [
        held(SettleOutcome::Retry { delay, error, force_dead }),
        held(SettleOutcome::Complete),
        held(SettleOutcome::Complete),
        held(SettleOutcome::Release),
    ];
    visitor.visit(&Turn {
        ticket,
        lease,
        claim: 1,
        promote: 10,
        reap: 10,
        lost_cap: 10,
        max_attempts,
        settles: &settles,
        extensions: &[Extension { id, token, ticket }],
    });
    let (name, revision, next_ms) = ("nightly", 7, 1_000);
    visitor.visit(&Tick {
        name,
        revision,
        next_ms,
        from_ms: next_ms,
        until_ms: Some(3_000),
        following_ms: Some(2_000),
        id: Some(id),
        payload,
        group: Some(group),
        options,
    });
    let (mark, timing, options) = (1, "every 1000 0", "{}");
    visitor.visit(&TimetablePut { name, mark, timing, options, payload, next_ms });
    visitor.visit(&TimetablePause { name, resume: Some((revision, Some(next_ms))) });
    visitor.visit(&TimetableRemove { name });
    visitor.visit(&Nudge);
}
