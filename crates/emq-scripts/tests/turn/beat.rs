//! A random turn, and the single calls that do the same.

use std::time::Duration;

use emq_keys::{BrandedId, QueueKeys};
use emq_scripts::{
    CallError, Complete, Completed, Extend, ExtendVerdict, Extended, Extension, Fenced, Promote,
    Reap, Reaped, RefusalClass, Release, Retried, Retry, ScriptCall, Settle, SettleOutcome,
    SettleVerdict, Turn,
};
use emq_wire::{Cmd, Reply};
use fastrand::Rng;

use super::snapshot::Snapshot;
use crate::support::job;

/// Leases and delays: far from each other, so that a time tells which of them it is.
pub(crate) const LEASE_MS: u64 = 60_000;
const DELAYS_MS: [u64; 2] = [3_600_000, 7_200_000];

/// The offsets from the server's clock that a turn may write.
pub(crate) const OFFSETS_MS: [u64; 4] = [0, LEASE_MS, DELAYS_MS[0], DELAYS_MS[1]];

/// What a holder shows.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    id: BrandedId,
    token: u64,
    ticket: Option<String>,
}

/// What the single calls answered.
pub(crate) struct Told {
    pub(crate) verdicts: Vec<SettleVerdict>,
    pub(crate) extensions: Vec<ExtendVerdict>,
    pub(crate) reaped: Reaped,
    pub(crate) promoted: u64,
}

#[derive(Clone, Debug)]
enum Outcome {
    Complete,
    Retry { delay_ms: u64, error: String, force_dead: bool },
    Release,
}

/// A turn.
#[derive(Clone, Debug)]
pub(crate) struct Beat {
    settles: Vec<(Held, Outcome)>,
    extensions: Vec<Held>,
    pub(crate) claim: u32,
    promote: u32,
    reap: u32,
    lost_cap: u32,
    max_attempts: u32,
    pub(crate) ticket: Option<String>,
}

impl Beat {
    /// A turn for a queue as it stands.
    pub(crate) fn random(rng: &mut Rng, queue: &Snapshot) -> Beat {
        let mut holders: Vec<Held> = Vec::new();
        for id in queue.rows() {
            let row = queue.hash(&format!("job:{id}"));
            let token = row.get("attempts").and_then(|token| token.parse().ok()).unwrap_or(0);
            if token > 0 {
                let (id, ticket) = (id.to_owned(), row.get("holder").cloned());
                // Those with a lease come up more often.
                let times = if row["state"] == "active" { 4 } else { 1 };
                holders.extend(vec![Held { id: parsed(&id), token, ticket }; times]);
            }
        }
        let most = if rng.u8(..3) == 0 { holders.len() } else { holders.len().min(6) };
        let mut settles: Vec<(Held, Outcome)> = (0..rng.usize(..=most))
            .map(|_| (random_held(rng, &holders), random_outcome(rng)))
            .collect();
        if rng.bool() {
            // As a worker sends them: neighbours of one outcome and ticket.
            settles.sort_by_key(|(held, outcome)| (verb(outcome), held.ticket.clone()));
        }
        // Two jobs due at once are ordered by their ids in a turn, and by the clock in single calls.
        let mut at_once = settles.iter_mut().filter_map(|(_, outcome)| match outcome {
            Outcome::Retry { delay_ms, .. } if *delay_ms == 0 => Some(delay_ms),
            _ => None,
        });
        at_once.next();
        at_once.for_each(|delay_ms| *delay_ms = DELAYS_MS[0]);
        let few = if holders.is_empty() { 0 } else { rng.usize(..5) };
        Beat {
            settles,
            extensions: (0..few).map(|_| random_held(rng, &holders)).collect(),
            claim: [0, 1, 2, 3, 5, 8, 20, 100, 200][rng.usize(..9)],
            promote: [0, 1, 3, 200][rng.usize(..4)],
            reap: [0, 0, 1, 2, 200][rng.usize(..5)],
            lost_cap: [1, 2, 10][rng.usize(..3)],
            max_attempts: [1, 2, 5][rng.usize(..3)],
            ticket: rng.bool().then(|| "new.1".to_owned()),
        }
    }

    /// The one call.
    pub(crate) async fn turn(
        &self,
        fenced: &Fenced,
        keys: &QueueKeys,
    ) -> Result<emq_scripts::Turned, CallError> {
        let settles: Vec<Settle<'_>> = self.settles.iter().map(settle).collect();
        let extensions: Vec<Extension<'_>> = self.extensions.iter().map(extension).collect();
        let call = Turn {
            ticket: self.ticket.as_deref(),
            lease: ms(LEASE_MS),
            claim: self.claim,
            promote: self.promote,
            reap: self.reap,
            lost_cap: self.lost_cap,
            max_attempts: self.max_attempts,
            settles: &settles,
            extensions: &extensions,
        };
        fenced.call(keys, &call).await
    }

    /// The single calls up to the claims, in the order in which a turn does them.
    pub(crate) fn singles(&self, fenced: &Fenced, keys: &QueueKeys) -> Vec<Cmd> {
        let settles = self.settles.iter().map(|(held, outcome)| {
            let (id, token, ticket) = (held.id, held.token, held.ticket.as_deref());
            match outcome {
                Outcome::Complete => fenced.command(keys, &Complete { id, token, ticket }),
                Outcome::Release => fenced.command(keys, &Release { id, token, ticket }),
                Outcome::Retry { .. } => fenced.command(keys, &self.retry(held, outcome)),
            }
        });
        let extensions = self.extensions.iter().map(|held| fenced.command(keys, &extend(held)));
        let mut calls: Vec<Cmd> = settles.chain(extensions).collect();
        if self.reap > 0 {
            let call = Reap { limit: self.reap, lost_cap: self.lost_cap };
            calls.push(fenced.command(keys, &call));
        }
        if self.promote > 0 {
            calls.push(fenced.command(keys, &Promote { limit: self.promote }));
        }
        calls
    }

    fn retry<'a>(&self, held: &'a Held, outcome: &'a Outcome) -> Retry<'a> {
        let Outcome::Retry { delay_ms, error, force_dead } = outcome else {
            unreachable!("{outcome:?} is no retry")
        };
        Retry {
            id: held.id,
            token: held.token,
            ticket: held.ticket.as_deref(),
            delay: ms(*delay_ms),
            max_attempts: self.max_attempts,
            error,
            force_dead: *force_dead,
        }
    }

    /// What the single calls answered, as a turn says it.
    pub(crate) fn told(&self, replies: Vec<Reply>) -> Result<Told, String> {
        let mut replies = replies.into_iter();
        let mut next = || replies.next().ok_or("a reply is missing");
        let (mut verdicts, mut extensions) = (Vec::new(), Vec::new());
        for (held, outcome) in &self.settles {
            let (id, token, ticket) = (held.id, held.token, held.ticket.as_deref());
            let reply = next()?;
            let verdict = match outcome {
                Outcome::Complete => {
                    let done = Complete { id, token, ticket }.decode(reply);
                    verdict(done, SettleVerdict::NoRow, |done| match done {
                        Completed::Done => SettleVerdict::Done,
                        Completed::NoRow => SettleVerdict::NoRow,
                    })
                }
                Outcome::Release => {
                    let done = Release { id, token, ticket }.decode(reply);
                    verdict(done, SettleVerdict::Stale, |()| SettleVerdict::Done)
                }
                Outcome::Retry { .. } => {
                    let done = self.retry(held, outcome).decode(reply);
                    verdict(done, SettleVerdict::NoRow, |done| match done {
                        Retried::Scheduled => SettleVerdict::Scheduled,
                        Retried::Dead => SettleVerdict::Dead,
                        Retried::NoRow => SettleVerdict::NoRow,
                    })
                }
            };
            verdicts.push(verdict?);
        }
        for held in &self.extensions {
            extensions.push(match extend(held).decode(next()?) {
                Ok(Extended::Held) => ExtendVerdict::Held,
                Ok(Extended::CancelAsked) => ExtendVerdict::CancelAsked,
                Err(error) if is_stale(&error) || is_foreign(&error) => ExtendVerdict::Stale,
                Err(error) => return Err(format!("extend: {error:?}")),
            });
        }
        let mut told = Told { verdicts, extensions, reaped: Reaped::default(), promoted: 0 };
        if self.reap > 0 {
            let call = Reap { limit: self.reap, lost_cap: self.lost_cap };
            told.reaped = call.decode(next()?).map_err(|error| format!("reap: {error:?}"))?;
        }
        if self.promote > 0 {
            let call = Promote { limit: self.promote };
            told.promoted = call.decode(next()?).map_err(|error| format!("promote: {error:?}"))?;
        }
        Ok(told)
    }
}

/// The verdict of a single settle. A row that is another kind of key (a torn past) is an error of
/// the server there, and `foreign` in a turn, which goes on.
fn verdict<T>(
    done: Result<T, CallError>,
    foreign: SettleVerdict,
    of: impl FnOnce(T) -> SettleVerdict,
) -> Result<SettleVerdict, String> {
    match done {
        Ok(done) => Ok(of(done)),
        Err(error) if is_stale(&error) => Ok(SettleVerdict::Stale),
        Err(error) if is_foreign(&error) => Ok(foreign),
        Err(error) => Err(format!("{error:?}")),
    }
}

fn is_stale(error: &CallError) -> bool {
    error.refusal() == Some(&RefusalClass::Stale)
}

fn is_foreign(error: &CallError) -> bool {
    format!("{error:?}").contains("WRONGTYPE")
}

fn extend(held: &Held) -> Extend<'_> {
    let (id, token, ticket) = (held.id, held.token, held.ticket.as_deref());
    Extend { id, token, ticket, lease: ms(LEASE_MS) }
}

fn settle((held, outcome): &(Held, Outcome)) -> Settle<'_> {
    let outcome = match outcome {
        Outcome::Complete => SettleOutcome::Complete,
        Outcome::Release => SettleOutcome::Release,
        Outcome::Retry { delay_ms, error, force_dead } => {
            SettleOutcome::Retry { delay: ms(*delay_ms), error, force_dead: *force_dead }
        }
    };
    Settle { id: held.id, token: held.token, ticket: held.ticket.as_deref(), outcome }
}

fn extension(held: &Held) -> Extension<'_> {
    Extension { id: held.id, token: held.token, ticket: held.ticket.as_deref() }
}

fn parsed(id: &str) -> BrandedId {
    BrandedId::parse(id.as_bytes()).expect("the name of a row")
}

/// Somebody's proof, mostly the right one.
fn random_held(rng: &mut Rng, holders: &[Held]) -> Held {
    let mut held = holders[rng.usize(..holders.len())].clone();
    match rng.u8(..16) {
        0 => held.token += 1,
        1 => held.ticket = Some("other.9".to_owned()),
        2 => held.id = job(999),
        _ => {}
    }
    held
}

fn random_outcome(rng: &mut Rng) -> Outcome {
    match rng.u8(..7) {
        0..4 => Outcome::Complete,
        4 | 5 => Outcome::Retry {
            delay_ms: [0, DELAYS_MS[0], DELAYS_MS[1]][rng.usize(..3)],
            error: ["", "boom"][rng.usize(..2)].to_owned(),
            force_dead: rng.u8(..3) == 0,
        },
        _ => Outcome::Release,
    }
}

fn verb(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Complete => 0,
        Outcome::Release => 1,
        Outcome::Retry { .. } => 2,
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
