//! The worker's beat: settle, extend, reap, promote and claim in one script.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use super::settle::{LAST_ERROR_MAX_BYTES, cut};
#[cfg(doc)]
use super::timers::Reaped;
use crate::call::{ScriptCall, begin, push_flag, push_ms, push_u64};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// A worker's whole beat, in this order: the settles, the extensions, the reaping, the promotion of
/// due jobs, and the claims over ring and flat set in turn. Each item goes through exactly the
/// transition of its single call; one that is refused stops no other.
///
/// More than [`Turn::MAX_JOBS`] of anything is refused whole with [`RefusalClass::Limit`].
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The mark of the claims of this call, as in [`crate::Claim::ticket`].
    pub ticket: Option<&'a str>,
    /// How long a claimed job is held from now, and an extended one.
    pub lease: Duration,
    /// The most jobs to claim. With 0 the call still settles, moves what is due and passes a wake
    /// on, as a worker whose slots are full needs it.
    pub claim: u32,
    /// The most due jobs to move from the schedule to where they wait; 0 leaves them.
    pub promote: u32,
    /// The most expired leases to take back; 0 leaves them. A caller who never reaps is told by
    /// [`Turned::next`] of an expired lease for as long as it lies there.
    pub reap: u32,
    /// As in [`crate::Reap::lost_cap`].
    pub lost_cap: u32,
    /// As in [`crate::Retry::max_attempts`], for every retry of this call.
    pub max_attempts: u32,
    /// What became of jobs, in order.
    pub settles: &'a [Settle<'a>],
    /// The jobs whose lease moves to now + [`Turn::lease`].
    pub extensions: &'a [Extension<'a>],
}

/// What became of one job.
#[derive(Clone, Copy, Debug)]
pub struct Settle<'a> {
    /// The job.
    pub id: BrandedId,
    /// The token of its claim.
    pub token: u64,
    /// The ticket of its claim, when that carried one. Neighbours under the same ticket and of the
    /// same outcome travel together: a batch is smallest when they are not mixed.
    pub ticket: Option<&'a str>,
    /// How it ended.
    pub outcome: SettleOutcome<'a>,
}

/// How a handler's run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleOutcome<'a> {
    /// As [`crate::Complete`].
    Complete,
    /// As [`crate::Retry`].
    Retry {
        /// How long until it runs again, rounded up to milliseconds.
        delay: Duration,
        /// What went wrong, cut at [`LAST_ERROR_MAX_BYTES`]; empty for nothing.
        error: &'a str,
        /// Dead now, whatever the caps say.
        force_dead: bool,
    },
    /// As [`crate::Release`].
    Release,
}

/// A job whose handler still runs.
#[derive(Clone, Copy, Debug)]
pub struct Extension<'a> {
    /// The job.
    pub id: BrandedId,
    /// The token of its claim.
    pub token: u64,
    /// The ticket of its claim, when that carried one.
    pub ticket: Option<&'a str>,
}

/// What a [`Turn`] came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// One for each of [`Turn::settles`].
    pub verdicts: Vec<SettleVerdict>,
    /// One for each of [`Turn::extensions`].
    pub extensions: Vec<ExtendVerdict>,
    /// The jobs claimed.
    pub jobs: Vec<TurnJob>,
    /// How long until the next job is due or the next lease expires; zero when that is so already,
    /// `None` when nothing is scheduled and nobody holds a job.
    pub next: Option<Duration>,
    /// Jobs whose lease was over and that wait again, as [`Reaped::returned`].
    pub returned: u64,
    /// Jobs that were lost too often and lie in the morgue, as [`Reaped::buried`].
    pub buried: u64,
    /// Due jobs that wait now.
    pub promoted: u64,
}

/// What a [`Settle`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleVerdict {
    /// Completed or released.
    Done,
    /// A retry: it runs again after its delay.
    Scheduled,
    /// A retry: it lies in the morgue.
    Dead,
    /// There was no row: it was completed or removed before.
    NoRow,
    /// Refused: the caller doesn't hold the job (any more). Nothing changed.
    Stale,
}

/// What an [`Extension`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtendVerdict {
    /// The lease holds.
    Held,
    /// The lease holds, and somebody asked to cancel the job.
    CancelAsked,
    /// Refused: the caller doesn't hold the job (any more).
    Stale,
}

/// A job in the caller's hands.
#[derive(Clone, PartialEq, Eq)]
pub struct TurnJob {
    /// Its id.
    pub id: BrandedId,
    /// What was enqueued.
    pub payload: Bytes,
    /// The fencing token, as in [`crate::Claimed::token`].
    pub token: u64,
    /// Its lane; `None` for the flat set.
    pub group: Option<BrandedId>,
    /// What an earlier holder wrote last with [`crate::Checkpoint`].
    pub checkpoint: Option<Bytes>,
    /// The name of its handler, as the producer wrote it: text, unless a foreign client wrote other
    /// bytes.
    pub kind: Option<Bytes>,
}

/// Without the payload and the checkpoint, which may be secret or large.
impl fmt::Debug for TurnJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnJob")
            .field("id", &self.id)
            .field("token", &self.token)
            .field("group", &self.group)
            .field("kind", &self.kind)
            .field("payload_bytes", &self.payload.len())
            .field("checkpoint_bytes", &self.checkpoint.as_ref().map(Bytes::len))
            .finish()
    }
}

impl Turn<'_> {
    /// The most settles, extensions, claims, promoted and reaped jobs of one call, each.
    pub const MAX_JOBS: usize = 200;
    /// From so many settles on, a turn is worth a write of its own.
    pub const LARGE_FROM: usize = 16;

    fn args_bytes(&self) -> usize {
        let ticket = |ticket: Option<&str>| ticket.map_or(0, str::len);
        let settles = self.settles.iter().map(|settle| {
            let more = match settle.outcome {
                SettleOutcome::Retry { error, .. } => 48 + error.len().min(LAST_ERROR_MAX_BYTES),
                SettleOutcome::Complete | SettleOutcome::Release => 0,
            };
            40 + more
        });
        // Runs are longest when each item makes its own.
        let runs = self.settles.iter().map(|settle| ticket(settle.ticket)).max().unwrap_or(0);
        let extensions = self.extensions.iter().map(|one| 64 + ticket(one.ticket));
        128 + ticket(self.ticket) + runs + settles.sum::<usize>() + extensions.sum::<usize>()
    }
}

impl ScriptCall for Turn<'_> {
    type Reply = Turned;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Turn,
        keys: &[
            key::PENDING,
            key::ACTIVE,
            key::SCHEDULE,
            key::DEAD,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::GWEIGHT,
            key::UNIQUE,
            key::META,
        ],
        args: &[
            "base",
            "lease_ms",
            "ticket",
            "claim",
            "promote",
            "reap",
            "lost_cap",
            "max_attempts",
        ],
        tail: Some("runs"),
        returns: "{verdicts, extensions, jobs, next_ms, returned, buried, promoted}: a settle is 1 \
                  done | 2 scheduled | 3 dead | 0 no row | -1 stale; an extension 1 held | 2 a \
                  cancel was asked for | -1 stale; jobs are six values each: id, payload, token, \
                  group or '', checkpoint or '', kind or ''; next_ms is the time until the next \
                  job is due or its lease expires, 0: now, -1: there is none; the rest counts \
                  jobs: reaped to wait again, reaped to the morgue, and promoted",
        refuses: &[RefusalClass::Arg, RefusalClass::Limit],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let mut cmd = begin(&Self::CONTRACT, script, keys, self.args_bytes());
        push_ms(&mut cmd, self.lease);
        cmd.push(self.ticket.unwrap_or_default());
        for number in [self.claim, self.promote, self.reap, self.lost_cap, self.max_attempts] {
            cmd.push_int(number.into());
        }
        let same = |a: &Settle<'_>, b: &Settle<'_>| {
            a.outcome.verb() == b.outcome.verb() && a.ticket == b.ticket
        };
        for run in self.settles.chunk_by(same) {
            push_run(&mut cmd, run[0].outcome.verb(), run[0].ticket, run.len());
            for settle in run {
                settle.push(&mut cmd);
            }
        }
        for run in self.extensions.chunk_by(|a, b| a.ticket == b.ticket) {
            push_run(&mut cmd, "extend", run[0].ticket, run.len());
            for one in run {
                push_held(&mut cmd, one.id, one.token);
            }
        }
        // Two large turns that leave in one write are answered in one, and server and worker would
        // wait for each other. Small ones are cheaper together.
        if self.settles.len() < Turn::LARGE_FROM { cmd } else { cmd.at_once() }
    }

    fn read(&self, reply: &Reply) -> Option<Turned> {
        let Reply::Array(parts) = reply else { return None };
        let [Reply::Array(verdicts), Reply::Array(extensions), Reply::Array(jobs), counts @ ..] =
            parts.as_slice()
        else {
            return None;
        };
        let [next, returned, buried, promoted] = counts else { return None };
        if verdicts.len() != self.settles.len() || extensions.len() != self.extensions.len() {
            return None;
        }
        let (jobs, rest) = jobs.as_chunks::<6>();
        if !rest.is_empty() {
            return None;
        }
        Some(Turned {
            verdicts: verdicts.iter().map(SettleVerdict::read).collect::<Option<_>>()?,
            extensions: extensions.iter().map(ExtendVerdict::read).collect::<Option<_>>()?,
            jobs: jobs.iter().map(TurnJob::read).collect::<Option<_>>()?,
            next: match next.as_int()? {
                -1 => None,
                ms => Some(Duration::from_millis(u64::try_from(ms).ok()?)),
            },
            returned: read::count(returned)?,
            buried: read::count(buried)?,
            promoted: read::count(promoted)?,
        })
    }
}

impl SettleOutcome<'_> {
    fn verb(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Retry { .. } => "retry",
            Self::Release => "release",
        }
    }
}

impl Settle<'_> {
    fn push(&self, cmd: &mut Cmd) {
        push_held(cmd, self.id, self.token);
        if let SettleOutcome::Retry { delay, error, force_dead } = self.outcome {
            push_ms(cmd, delay);
            cmd.push(cut(error, LAST_ERROR_MAX_BYTES));
            push_flag(cmd, force_dead);
        }
    }
}

/// The head of neighbours of one verb under one ticket.
fn push_run(cmd: &mut Cmd, verb: &str, ticket: Option<&str>, count: usize) {
    cmd.push(verb);
    cmd.push(ticket.unwrap_or_default());
    push_u64(cmd, count as u64);
}

fn push_held(cmd: &mut Cmd, id: BrandedId, token: u64) {
    cmd.push(id.as_bytes());
    push_u64(cmd, token);
}

impl SettleVerdict {
    fn read(reply: &Reply) -> Option<SettleVerdict> {
        match reply {
            Reply::Int(1) => Some(Self::Done),
            Reply::Int(2) => Some(Self::Scheduled),
            Reply::Int(3) => Some(Self::Dead),
            Reply::Int(0) => Some(Self::NoRow),
            Reply::Int(-1) => Some(Self::Stale),
            _ => None,
        }
    }
}

impl ExtendVerdict {
    fn read(reply: &Reply) -> Option<ExtendVerdict> {
        match reply {
            Reply::Int(1) => Some(Self::Held),
            Reply::Int(2) => Some(Self::CancelAsked),
            Reply::Int(-1) => Some(Self::Stale),
            _ => None,
        }
    }
}

impl TurnJob {
    fn read(fields: &[Reply; 6]) -> Option<TurnJob> {
        let [id, Reply::Bulk(payload), token, group, checkpoint, kind] = fields else {
            return None;
        };
        Some(TurnJob {
            id: read::id(id)?,
            payload: payload.clone(),
            token: read::count(token).filter(|token| *token > 0)?,
            group: match given(group)? {
                Some(_) => Some(read::id(group)?),
                None => None,
            },
            checkpoint: given(checkpoint)?,
            kind: given(kind)?,
        })
    }
}

/// A text of which an empty one means "none".
fn given(reply: &Reply) -> Option<Option<Bytes>> {
    let Reply::Bulk(text) = reply else { return None };
    Some((!text.is_empty()).then(|| text.clone()))
}
