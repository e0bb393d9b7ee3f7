//! When the next job falls due or loses its lease.

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_wire::{Cmd, Pipeline, Reply};

use super::Queue;
use crate::error::Error;

/// How long until something happens on the queue by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// Until the earliest scheduled job is due; zero when it is already.
    pub(crate) due_in: Option<Duration>,
    /// Until the earliest lease ends; zero when it has.
    pub(crate) expiry_in: Option<Duration>,
}

impl Horizon {
    pub(crate) fn next(self) -> Option<Duration> {
        match (self.due_in, self.expiry_in) {
            (Some(due), Some(expiry)) => Some(due.min(expiry)),
            (due, expiry) => due.or(expiry),
        }
    }

    fn read(replies: &[Reply]) -> Option<Horizon> {
        let [time, schedule, active] = replies else { return None };
        let now_ms = server_ms(time)?;
        let until = |head: &Reply| {
            let at_ms = head_score_ms(head)?;
            Some(Duration::from_millis(at_ms.saturating_sub(now_ms)))
        };
        Some(Horizon { due_in: until(schedule), expiry_in: until(active) })
    }
}

impl Queue {
    /// Reads the heads of the schedule and of the leases, in one round trip.
    pub(crate) async fn horizon(&self) -> Result<Horizon, Error> {
        let replies = self.read_all(horizon_commands(self.keys())).await?;
        Horizon::read(&replies).ok_or_else(|| {
            let reply = replies.into_iter().find(|reply| reply.as_error().is_some());
            super::browse::misread("ZRANGE", &reply.unwrap_or(Reply::Nil))
        })
    }
}

fn horizon_commands(keys: &QueueKeys) -> Pipeline {
    let head = |key: &str| Cmd::new("ZRANGE").arg(key).int(0).int(0).arg("WITHSCORES");
    [Cmd::new("TIME"), head(keys.schedule()), head(keys.active())].into_iter().collect()
}

/// Reads `TIME`, in milliseconds.
pub(crate) fn server_ms(reply: &Reply) -> Option<u64> {
    let [seconds, micros] = reply.as_array()? else { return None };
    let number = |reply: &Reply| std::str::from_utf8(reply.as_bytes()?).ok()?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1000)?.checked_add(number(micros)? / 1000)
}

/// The score of the first member, in RESP2 (flat) and RESP3 (pairs of a string and a double).
fn head_score_ms(reply: &Reply) -> Option<u64> {
    let score = match reply.as_array()? {
        [Reply::Array(pair), ..] => pair.get(1)?,
        [_, score, ..] => score,
        _ => return None,
    };
    let score = match score {
        Reply::Double(score) => *score,
        other => std::str::from_utf8(other.as_bytes()?).ok()?.parse().ok()?,
    };
    // A float to integer cast saturates, and no deadline is below zero.
    Some(score as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(text.into())
    }

    #[test]
    fn a_horizon_is_the_nearer_of_the_two_and_never_negative() {
        let time = Reply::Array(vec![bulk("1000"), bulk("500900")]);
        let head = |score| Reply::Array(vec![bulk("JOB0NgWEfAEJfs"), score]);
        let read = |schedule, active| Horizon::read(&[time.clone(), schedule, active]).unwrap();
        let ms = Duration::from_millis;
        let horizon = read(head(bulk("1000600")), head(bulk("1000550")));
        assert_eq!(horizon.next(), Some(ms(50)));
        assert_eq!(horizon.due_in, Some(ms(100)));
        let nothing = Reply::Array(vec![]);
        assert_eq!(read(nothing.clone(), nothing.clone()).next(), None);
        assert_eq!(read(head(bulk("1")), nothing.clone()).next(), Some(ms(0)));
        let resp3 = Reply::Array(vec![head(Reply::Double(1_000_507.0))]);
        assert_eq!(read(nothing, resp3).next(), Some(ms(7)));
        assert_eq!(Horizon::read(&[Reply::Nil, Reply::Nil, Reply::Nil]), None);
    }
}
