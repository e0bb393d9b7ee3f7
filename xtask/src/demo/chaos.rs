//! The server, killed and brought back.

use std::time::{Duration, Instant};

use emq_testkit::Valkey;

use super::Persistence;
use crate::Failure;

/// Kills the server with -9, leaves it down for a moment, and starts it on the same data.
pub(super) fn kill_and_restart(
    valkey: &Valkey,
    persistence: Persistence,
) -> Result<Duration, Failure> {
    let down = Instant::now();
    valkey.kill9()?;
    println!("server killed with -9 (persistence: {persistence:?}) ...");
    std::thread::sleep(Duration::from_millis(300));
    valkey.start_again()?;
    println!("... and started again after {} ms", down.elapsed().as_millis());
    Ok(down.elapsed())
}
