//! Exact delivery, counted: every run says how many different jobs had their effect.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The effects of jobs 0 to n - 1.
#[derive(Debug)]
pub struct Effects {
    times: Box<[AtomicU32]>,
    done: AtomicUsize,
    twice: AtomicUsize,
    all: Notify,
}

impl Effects {
    /// None of `n` jobs has had its effect yet.
    #[must_use]
    pub fn of(n: usize) -> Effects {
        Effects {
            times: (0..n).map(|_| AtomicU32::new(0)).collect(),
            done: AtomicUsize::new(0),
            twice: AtomicUsize::new(0),
            all: Notify::new(),
        }
    }

    /// Job `i` has its effect.
    ///
    /// # Panics
    /// When `i` was never enqueued: a rival that makes up jobs isn't measured.
    pub fn happened(&self, i: usize) {
        if self.times[i].fetch_add(1, Ordering::Relaxed) > 0 {
            self.twice.fetch_add(1, Ordering::Relaxed);
        } else if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.times.len() {
            self.all.notify_waiters();
        }
    }

    /// Jobs whose effect happened.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Acquire)
    }

    /// Effects beyond the first of a job.
    #[must_use]
    pub fn twice(&self) -> usize {
        self.twice.load(Ordering::Relaxed)
    }

    /// Waits until every job has had its effect. Being acknowledged is more: a contender waits for
    /// that too before it stops its clock.
    pub async fn all(&self) {
        let mut complete = std::pin::pin!(self.all.notified());
        loop {
            complete.as_mut().enable();
            if self.done() == self.times.len() {
                return;
            }
            complete.as_mut().await;
            complete.set(self.all.notified());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_counts_once_and_the_rest_is_told_apart() {
        let effects = Effects::of(3);
        for i in [0, 2, 2, 2] {
            effects.happened(i);
        }
        assert_eq!((effects.done(), effects.twice()), (2, 2));
    }
}
