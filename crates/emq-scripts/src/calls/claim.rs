//! Claims: pending -> active under a lease.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin, push_ms};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::read;
use crate::refusal::RefusalClass;

/// Takes the oldest job of the flat set. `None` when nothing waits there or the queue is paused.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// How long the job is held before the reaper may return it.
    pub lease: Duration,
    /// The holder's mark, `<incarnation>.<n>`, unique per call; the settle must carry the same.
    pub ticket: Option<&'a str>,
}

/// Takes the oldest job of the lane at the head of the ring, and turns the ring.
#[derive(Clone, Copy, Debug)]
pub struct LaneClaim<'a> {
    /// As in [`Claim::lease`].
    pub lease: Duration,
    /// As in [`Claim::ticket`].
    pub ticket: Option<&'a str>,
}

/// A job in the caller's hands.
#[derive(Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Its id.
    pub id: BrandedId,
    /// What was enqueued.
    pub payload: Bytes,
    /// The fencing token: it rises with each claim of this job, and each settle must carry it.
    pub token: u64,
    /// Its lane; `None` for the flat set.
    pub group: Option<BrandedId>,
    /// What an earlier holder wrote last with [`crate::Checkpoint`].
    pub checkpoint: Option<Bytes>,
}

/// Without the payload and the checkpoint, which may be secret or large.
impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed")
            .field("id", &self.id)
            .field("token", &self.token)
            .field("group", &self.group)
            .field("payload_bytes", &self.payload.len())
            .field("checkpoint_bytes", &self.checkpoint.as_ref().map(Bytes::len))
            .finish()
    }
}

impl ScriptCall for Claim<'_> {
    type Reply = Option<Claimed>;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Claim,
        keys: &[key::PENDING, key::ACTIVE, key::WAKE, key::RING, key::META],
        args: &["base", "lease_ms", "ticket"],
        tail: None,
        returns: "{} | {id, payload, token} | {id, payload, token, checkpoint}",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode(&Self::CONTRACT, script, keys, self.lease, self.ticket)
    }

    fn read(&self, reply: &Reply) -> Option<Option<Claimed>> {
        read_claimed(reply, Place::Flat)
    }
}

impl ScriptCall for LaneClaim<'_> {
    type Reply = Option<Claimed>;

    const CONTRACT: Contract = Contract {
        script: ScriptName::LaneClaim,
        keys: &[
            key::RING,
            key::ACTIVE,
            key::WAKE,
            key::PENDING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::GWEIGHT,
            key::META,
        ],
        args: &["base", "lease_ms", "ticket"],
        tail: None,
        returns: "{} | {id, payload, token, group} | {id, payload, token, group, checkpoint}",
        refuses: &[RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode(&Self::CONTRACT, script, keys, self.lease, self.ticket)
    }

    fn read(&self, reply: &Reply) -> Option<Option<Claimed>> {
        read_claimed(reply, Place::Lane)
    }
}

fn encode(
    contract: &Contract,
    script: &Script,
    keys: &QueueKeys,
    lease: Duration,
    ticket: Option<&str>,
) -> Cmd {
    let ticket = ticket.unwrap_or_default();
    let mut cmd = begin(contract, script, keys, 32 + ticket.len());
    push_ms(&mut cmd, lease);
    cmd.push(ticket);
    cmd
}

/// Whether a reply carries the lane's id.
#[derive(Clone, Copy)]
enum Place {
    Flat,
    Lane,
}

fn read_claimed(reply: &Reply, place: Place) -> Option<Option<Claimed>> {
    let Reply::Array(fields) = reply else { return None };
    let [id, payload, token, rest @ ..] = fields.as_slice() else {
        return fields.is_empty().then_some(None);
    };
    let (group, rest) = match place {
        Place::Flat => (None, rest),
        Place::Lane => {
            let (group, rest) = rest.split_first()?;
            (Some(read::id(group)?), rest)
        }
    };
    let checkpoint = match rest {
        [] => None,
        [Reply::Bulk(checkpoint)] => Some(checkpoint.clone()),
        _ => return None,
    };
    let Reply::Bulk(payload) = payload else { return None };
    Some(Some(Claimed {
        id: read::id(id)?,
        payload: payload.clone(),
        token: read::count(token).filter(|token| *token > 0)?,
        group,
        checkpoint,
    }))
}
