//! Parking: a connection of the worker's own that blocks on the wake key.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use emq_wire::{BlockingLane, Unblocker, WireError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::inside::Inside;
use crate::queue::Queue;

/// The first and the longest pause after a park that failed.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a park ended.
#[derive(Debug)]
pub(super) enum Parked {
    /// A token came: there may be work.
    Woken,
    /// The bound passed, or the park was ended from here.
    Quiet,
    /// The lane was lost, and with it perhaps a token.
    Lost(WireError),
}

/// Parks in a task of its own, so that the loop can do other things meanwhile: a parked call
/// can't be dropped without giving its socket up.
pub(super) struct Parker {
    requests: mpsc::Sender<Duration>,
    parked: mpsc::Receiver<Parked>,
    unblocker: Arc<Mutex<Option<Unblocker>>>,
    task: JoinHandle<()>,
}

impl Parker {
    pub(super) fn start(inside: &Inside) -> Parker {
        let (requests, inbox) = mpsc::channel(1);
        let (outbox, parked) = mpsc::channel(1);
        let unblocker = Arc::default();
        let park = Park { queue: inside.queue.clone(), lane: None, failures: 0 };
        let task = tokio::spawn(park.serve(inbox, outbox, Arc::clone(&unblocker)));
        Parker { requests, parked, unblocker, task }
    }

    /// Begins a park of at most `bound`. One at a time: the last one must have ended.
    pub(super) fn park(&self, bound: Duration) {
        // The room of one is free when the last park has ended.
        let _ = self.requests.try_send(bound);
    }

    /// How the park under way ended.
    pub(super) async fn ended(&mut self) -> Parked {
        match self.parked.recv().await {
            Some(parked) => parked,
            None => std::future::pending().await,
        }
    }

    /// Ends a park under way, if there is one, and waits for it. A token that it took in that
    /// instant is the caller's to pass on.
    pub(super) async fn unblock(&mut self) {
        let unblocker = self.unblocker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(unblocker) = unblocker {
            unblocker.wake().await;
            let _ = self.parked.recv().await;
        }
    }
}

impl Drop for Parker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Park {
    queue: Queue,
    lane: Option<BlockingLane>,
    failures: u32,
}

impl Park {
    async fn serve(
        mut self,
        mut requests: mpsc::Receiver<Duration>,
        parked: mpsc::Sender<Parked>,
        unblocker: Arc<Mutex<Option<Unblocker>>>,
    ) {
        while let Some(bound) = requests.recv().await {
            let outcome = match self.once(bound, &unblocker).await {
                Ok(outcome) => {
                    self.failures = 0;
                    outcome
                }
                Err(error) => {
                    let longest = PAUSE.saturating_mul(1 << self.failures.min(10)).min(PAUSE_MAX);
                    self.failures += 1;
                    tokio::time::sleep(longest.mul_f64(fastrand::f64())).await;
                    Parked::Lost(error)
                }
            };
            if parked.send(outcome).await.is_err() {
                return;
            }
        }
    }

    async fn once(
        &mut self,
        bound: Duration,
        unblocker: &Mutex<Option<Unblocker>>,
    ) -> Result<Parked, WireError> {
        let fenced = self.queue.bus().fenced();
        let lane = match &mut self.lane {
            Some(lane) => lane,
            None => {
                let lane = fenced.blocking_lane().await?;
                *unblocker.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(lane.unblocker(fenced.connection()));
                self.lane.insert(lane)
            }
        };
        let token = lane.blpop(self.queue.keys().wake(), bound).await?;
        Ok(token.map_or(Parked::Quiet, |_| Parked::Woken))
    }
}
