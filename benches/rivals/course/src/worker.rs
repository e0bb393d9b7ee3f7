//! A rival's worker, running.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Fault;

/// How long a worker may take to stop before it is dropped.
const STOPS_WITHIN: Duration = Duration::from_secs(8);

/// Resolves when the worker is to stop.
pub type Stop = oneshot::Receiver<()>;

/// A rival's worker, running.
#[derive(Debug)]
pub struct Worker {
    stop: oneshot::Sender<()>,
    run: JoinHandle<Result<(), Fault>>,
}

impl Worker {
    /// Runs `run`, which ends soon after it is told to stop.
    pub fn spawn<Run>(run: impl FnOnce(Stop) -> Run) -> Worker
    where
        Run: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        Worker { stop, run: tokio::spawn(run(stopped)) }
    }

    /// Waits until the worker ends by itself, which none should, and says why it did.
    pub async fn ended(&mut self) -> Fault {
        match (&mut self.run).await {
            Ok(Ok(())) => Fault::failed("the worker ended by itself"),
            Ok(Err(Fault::Failed(why) | Fault::Absent(why))) => {
                Fault::Failed(format!("the worker ended: {why}"))
            }
            Err(panic) => Fault::Failed(format!("the worker panicked: {panic}")),
        }
    }

    /// Stops it, outside all clocks.
    pub async fn stop(mut self) {
        // One that has ended already has nobody who listens.
        let _ = self.stop.send(());
        if self.run.is_finished() {
            return;
        }
        if tokio::time::timeout(STOPS_WITHIN, &mut self.run).await.is_err() {
            self.run.abort();
        }
    }
}
