//! Makes a failing sequence short: parts are left out as long as the rest still fails.

use emq_scripts::Fenced;

use super::run::{Failure, replay};

/// The most steps that are spent on it, in all replays together.
const BUDGET: usize = 60_000;

/// A shorter sequence that fails as well, on queues named after `name`.
pub(crate) async fn shrink(fenced: &Fenced, name: &str, failure: Failure) -> Failure {
    let mut best = failure;
    let (mut spent, mut replays) = (0, 0);
    let mut chunk = best.history.len().div_ceil(2);
    while chunk > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < best.history.len() {
            let end = (at + chunk).min(best.history.len());
            let rest = [&best.history[..at], &best.history[end..]].concat();
            if spent + rest.len() > BUDGET {
                return best;
            }
            spent += rest.len();
            replays += 1;
            match replay(fenced, &format!("{name}.{replays}"), &rest).await {
                Err(failure) => {
                    best = failure;
                    shorter = true;
                }
                Ok(()) => at = end,
            }
        }
        if !shorter || chunk > 1 {
            chunk /= 2;
        }
    }
    best
}
