//! The server's clock, as far as it is known here.

use std::time::Duration;

use emq_wire::Reply;
use tokio::time::Instant;

/// What the server's clock said, and when that was heard. Between two readings the monotonic clock
/// counts on; the clock of this machine is never asked.
///
/// The reading was a moment old when it was heard, so this clock is behind the server's, never
/// ahead of it, but for the difference of their speeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    now_ms: u64,
    heard: Instant,
}

impl ServerClock {
    /// The clock said this just now, in unix milliseconds.
    pub(super) fn heard(now_ms: u64) -> ServerClock {
        ServerClock { now_ms, heard: Instant::now() }
    }

    /// The answer to TIME: seconds, and microseconds of the second.
    pub(super) fn of_time(reply: &Reply) -> Option<ServerClock> {
        let [seconds, micros] = reply.as_array()? else { return None };
        let number = |reply: &Reply| -> Option<u64> {
            std::str::from_utf8(reply.as_bytes()?).ok()?.parse().ok()
        };
        let now_ms = number(seconds)?.checked_mul(1_000)?.checked_add(number(micros)? / 1_000)?;
        Some(ServerClock::heard(now_ms))
    }

    /// What it says now, in unix milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        let passed = u64::try_from(self.heard.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.now_ms.saturating_add(passed)
    }

    /// When it will say so, a moment in unix milliseconds.
    pub(super) fn instant_of(&self, unix_ms: u64) -> Instant {
        self.heard + Duration::from_millis(unix_ms.saturating_sub(self.now_ms).min(FAR_MS))
    }
}

/// A year: nobody sleeps longer.
const FAR_MS: u64 = 366 * 86_400_000;
