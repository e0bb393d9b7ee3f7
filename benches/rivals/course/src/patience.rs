//! Waiting for a rival, with a bound.

use std::time::Duration;

use contender::Effects;
use tokio::time::{sleep, timeout};

use crate::{Fault, Rival, Worker};

/// How long nothing may happen. Longer than the slowest heartbeat among the defaults, 30 seconds.
pub(crate) const IDLE: Duration = Duration::from_secs(45);
/// The same after a server was killed: a lock that expires (30 s) and a check that finds it (30 s).
pub(crate) const IDLE_AFTER_A_KILL: Duration = Duration::from_secs(90);
/// How long a row may take in all.
pub(crate) const ROW: Duration = Duration::from_secs(300);

/// How often the store is asked whether all is acknowledged: a thousandth of a row's second.
const ASK_EVERY: Duration = Duration::from_millis(1);

/// Waits until every job had its effect and the store has every one as done.
pub(crate) async fn all_acknowledged<R: Rival>(
    rival: &R,
    worker: &mut Worker,
    effects: &Effects,
    n: usize,
    idle: Duration,
) -> Result<(), Fault> {
    tokio::select! {
        done = settled(rival, effects, n, idle) => done,
        why = worker.ended() => Err(with_counts(why, effects, n)),
    }
}

async fn settled<R: Rival>(
    rival: &R,
    effects: &Effects,
    n: usize,
    idle: Duration,
) -> Result<(), Fault> {
    all_happened(effects, n, idle).await?;
    let asked = async {
        loop {
            // A store that was just killed answers later; one that never does is out of time.
            if rival.acknowledged(n).await.is_ok_and(|done| done >= n) {
                return;
            }
            sleep(ASK_EVERY).await;
        }
    };
    if timeout(idle, asked).await.is_ok() {
        return Ok(());
    }
    let done = rival.acknowledged(n).await?;
    let what = format!("all handlers ran, but only {done} of {n} jobs were acknowledged");
    Err(Fault::Failed(format!("{what} within {} s", idle.as_secs())))
}

async fn all_happened(effects: &Effects, n: usize, idle: Duration) -> Result<(), Fault> {
    loop {
        let (done, twice) = (effects.done(), effects.twice());
        if timeout(idle, effects.all()).await.is_ok() {
            return Ok(());
        }
        if (effects.done(), effects.twice()) == (done, twice) {
            let what = format!("nothing happened for {} s", idle.as_secs());
            return Err(with_counts(Fault::Failed(what), effects, n));
        }
    }
}

fn with_counts(why: Fault, effects: &Effects, n: usize) -> Fault {
    let (Fault::Failed(why) | Fault::Absent(why)) = why;
    let (done, twice) = (effects.done(), effects.twice());
    Fault::Failed(format!("{why}; {done} of {n} jobs were done, {twice} effects too many"))
}
