//! Settling and keeping a lease: what the holder of a job says about it.

use std::time::Duration;

use emq_keys::{BrandedId, QueueKeys};
use emq_wire::{Cmd, Reply, Script};

use crate::call::{ScriptCall, begin, push_flag, push_ms, push_u64, whole_ms};
use crate::contract::{Contract, key};
use crate::name::ScriptName;
use crate::refusal::RefusalClass;

/// The most bytes of [`Retry::error`] that are kept; what is longer is cut at a character.
pub const LAST_ERROR_MAX_BYTES: usize = 4096;

/// The job is done: it goes, wherever it sits.
#[derive(Clone, Copy, Debug)]
pub struct Complete<'a> {
    /// The job.
    pub id: BrandedId,
    /// The token of its claim.
    pub token: u64,
    /// The ticket of its claim, when that carried one.
    pub ticket: Option<&'a str>,
}

/// What a [`Complete`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The job is gone, by this call.
    Done,
    /// There was no row: it was completed or removed before.
    NoRow,
}

impl ScriptCall for Complete<'_> {
    type Reply = Completed;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Complete,
        keys: &[
            key::ACTIVE,
            key::PENDING,
            key::SCHEDULE,
            key::DEAD,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
            key::UNIQUE,
            key::META,
        ],
        args: &["base", "id", "token", "ticket"],
        tail: None,
        returns: "1 gone | 0 no row",
        refuses: &[RefusalClass::Stale, RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode_held(&Self::CONTRACT, script, keys, (self.id, self.token, self.ticket), 0)
    }

    fn read(&self, reply: &Reply) -> Option<Completed> {
        match reply {
            Reply::Int(1) => Some(Completed::Done),
            Reply::Int(0) => Some(Completed::NoRow),
            _ => None,
        }
    }
}

/// The handler failed: the job runs again later, or is dead at the cap.
#[derive(Clone, Copy, Debug)]
pub struct Retry<'a> {
    /// The job.
    pub id: BrandedId,
    /// The token of its claim.
    pub token: u64,
    /// The ticket of its claim, when that carried one.
    pub ticket: Option<&'a str>,
    /// How long until it runs again, rounded up to milliseconds.
    pub delay: Duration,
    /// The cap of attempts for a job without one of its own.
    pub max_attempts: u32,
    /// What went wrong, kept as `last_error`; empty for nothing. Cut at [`LAST_ERROR_MAX_BYTES`].
    pub error: &'a str,
    /// Dead now, whatever the caps say.
    pub force_dead: bool,
}

/// What a [`Retry`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It runs again after the delay.
    Scheduled,
    /// It lies in the morgue.
    Dead,
    /// There was no row: it was completed or removed before.
    NoRow,
}

impl ScriptCall for Retry<'_> {
    type Reply = Retried;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Retry,
        keys: &[
            key::ACTIVE,
            key::SCHEDULE,
            key::DEAD,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
        ],
        args: &["base", "id", "token", "ticket", "delay_ms", "max_attempts", "error", "force_dead"],
        tail: None,
        returns: "'scheduled' | 'dead' | 0 no row",
        refuses: &[RefusalClass::Stale, RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let error = cut(self.error, LAST_ERROR_MAX_BYTES);
        let held = (self.id, self.token, self.ticket);
        let mut cmd = encode_held(&Self::CONTRACT, script, keys, held, 64 + error.len());
        push_ms(&mut cmd, self.delay);
        cmd.push_int(self.max_attempts.into());
        cmd.push(error);
        push_flag(&mut cmd, self.force_dead);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Retried> {
        match reply {
            Reply::Int(0) => Some(Retried::NoRow),
            Reply::Bulk(word) if word == "scheduled" => Some(Retried::Scheduled),
            Reply::Bulk(word) if word == "dead" => Some(Retried::Dead),
            _ => None,
        }
    }
}

/// The holder hands the job back unfinished, and is not blamed for it. Needs a live lease.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    /// The job.
    pub id: BrandedId,
    /// The token of its claim.
    pub token: u64,
    /// The ticket of its claim, when that carried one.
    pub ticket: Option<&'a str>,
}

impl ScriptCall for Release<'_> {
    type Reply = ();

    const CONTRACT: Contract = Contract {
        script: ScriptName::Release,
        keys: &[
            key::ACTIVE,
            key::PENDING,
            key::WAKE,
            key::RING,
            key::PAUSED,
            key::GLIMIT,
            key::GACTIVE,
        ],
        args: &["base", "id", "token", "ticket"],
        tail: None,
        returns: "1",
        refuses: &[RefusalClass::Stale, RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        encode_held(&Self::CONTRACT, script, keys, (self.id, self.token, self.ticket), 0)
    }

    fn read(&self, reply: &Reply) -> Option<()> {
        (*reply == Reply::Int(1)).then_some(())
    }
}

/// Moves the lease to now + `lease`. Needs a live one; expired but not reaped still counts.
#[derive(Clone, Copy, Debug)]
pub struct Extend<'a> {
    /// The job.
    pub id: BrandedId,
    /// The token of its claim.
    pub token: u64,
    /// The ticket of its claim, when that carried one.
    pub ticket: Option<&'a str>,
    /// The new lease, from now on.
    pub lease: Duration,
}

/// What an [`Extend`] or a [`Checkpoint`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lease holds.
    Held,
    /// The lease holds, and somebody asked to cancel the job.
    CancelAsked,
}

impl Extended {
    fn read(reply: &Reply) -> Option<Extended> {
        match reply {
            Reply::Int(1) => Some(Self::Held),
            Reply::Int(2) => Some(Self::CancelAsked),
            _ => None,
        }
    }
}

impl ScriptCall for Extend<'_> {
    type Reply = Extended;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Extend,
        keys: &[key::ACTIVE],
        args: &["base", "id", "token", "ticket", "lease_ms"],
        tail: None,
        returns: "1 | 2 a cancel was asked for",
        refuses: &[RefusalClass::Stale, RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let held = (self.id, self.token, self.ticket);
        let mut cmd = encode_held(&Self::CONTRACT, script, keys, held, 16);
        push_ms(&mut cmd, self.lease);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Extended> {
        Extended::read(reply)
    }
}

/// Keeps the handler's progress in the row; the next holder gets it. Needs a live lease.
#[derive(Clone, Copy)]
pub struct Checkpoint<'a> {
    /// The job.
    pub id: BrandedId,
    /// The token of its claim.
    pub token: u64,
    /// The ticket of its claim, when that carried one.
    pub ticket: Option<&'a str>,
    /// Moves the lease too; `None` leaves its deadline. A millisecond at least.
    pub lease: Option<Duration>,
    /// What to keep, at most [`Checkpoint::MAX_BYTES`].
    pub data: &'a [u8],
}

impl Checkpoint<'_> {
    /// The most bytes of [`Checkpoint::data`].
    pub const MAX_BYTES: usize = 64 * 1024;
}

impl ScriptCall for Checkpoint<'_> {
    type Reply = Extended;

    const CONTRACT: Contract = Contract {
        script: ScriptName::Checkpoint,
        keys: &[key::ACTIVE],
        args: &["base", "id", "token", "ticket", "lease_ms", "data"],
        tail: None,
        returns: "1 | 2 a cancel was asked for",
        refuses: &[RefusalClass::Stale, RefusalClass::Arg],
        runs_when_full: true,
    };

    fn encode(&self, script: &Script, keys: &QueueKeys) -> Cmd {
        let held = (self.id, self.token, self.ticket);
        let mut cmd = encode_held(&Self::CONTRACT, script, keys, held, 32 + self.data.len());
        // 0 tells the script to leave the deadline.
        push_u64(&mut cmd, self.lease.map_or(0, |lease| whole_ms(lease).max(1)));
        cmd.push(self.data);
        cmd
    }

    fn read(&self, reply: &Reply) -> Option<Extended> {
        Extended::read(reply)
    }
}

/// The common head: base, id, token, ticket.
fn encode_held(
    contract: &Contract,
    script: &Script,
    keys: &QueueKeys,
    (id, token, ticket): (BrandedId, u64, Option<&str>),
    more_bytes: usize,
) -> Cmd {
    let ticket = ticket.unwrap_or_default();
    let mut cmd = begin(contract, script, keys, 64 + ticket.len() + more_bytes);
    cmd.push(id.as_bytes());
    push_u64(&mut cmd, token);
    cmd.push(ticket);
    cmd
}

/// The longest head of `text` of at most `max_bytes` that ends at a character.
pub(super) fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn an_error_is_cut_at_a_character() {
        assert_eq!(cut("abc", 4096), "abc");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 0), "");
    }
}
