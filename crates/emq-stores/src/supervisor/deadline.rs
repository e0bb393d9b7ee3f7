//! Deadlines that pass although an owner blocks its thread.

use std::sync::{Arc, mpsc};
use std::time::Instant as ClockInstant;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A clock outside the runtime.
///
/// tokio's timers are run by one idle thread of the runtime. When what that thread wakes up for is
/// an owner that blocks it, nobody runs them: the other threads sleep until a task is given to
/// them. The thread of this clock does so when a deadline has passed. It ends with this value.
pub(super) struct Deadlines {
    next: mpsc::Sender<ClockInstant>,
    passed: Arc<Notify>,
}

impl Deadlines {
    pub(super) fn start() -> Deadlines {
        let (next, deadlines) = mpsc::channel();
        let passed = Arc::new(Notify::new());
        let woken = Arc::clone(&passed);
        let thread = std::thread::Builder::new().name("emq-deadlines".into());
        if let Err(error) = thread.spawn(move || watch(&deadlines, &woken)) {
            tracing::warn!(%error, "no thread for the deadlines; they are the runtime's alone");
        }
        Deadlines { next, passed }
    }

    /// Waits until then. One wait at a time: a later one takes the place of an earlier one.
    pub(super) async fn until(&self, at: Instant) {
        let left = at.saturating_duration_since(Instant::now());
        // Without the thread there are still the runtime's timers.
        let _ = self.next.send(ClockInstant::now() + left);
        let mut slept = std::pin::pin!(sleep_until(at));
        loop {
            tokio::select! {
                () = &mut slept => return,
                // It may be an earlier wait's, or the runtime's clock be paused by a test.
                () = self.passed.notified() => if Instant::now() >= at { return },
            }
        }
    }
}

/// Tells when the deadline that was named last has passed, until there are no more to come.
fn watch(deadlines: &mpsc::Receiver<ClockInstant>, passed: &Notify) {
    while let Ok(mut at) = deadlines.recv() {
        loop {
            match deadlines.recv_timeout(at.saturating_duration_since(ClockInstant::now())) {
                Ok(next) => at = next,
                Err(mpsc::RecvTimeoutError::Timeout) => break passed.notify_one(),
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
