//! A bound on something in flight.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};

use crate::config::Overload;
use crate::error::WireError;

/// Taking and giving are one atomic step each; only callers that have to wait touch anything
/// else. They are served in the order in which they came, and nobody who may wait passes them.
#[derive(Debug)]
pub(crate) struct Bound {
    limit: usize,
    what: &'static str,
    used: AtomicUsize,
    waiting: AtomicUsize,
    /// Held by the first in the line of those who wait; its own queue is the rest of the line.
    turn: Mutex<()>,
    /// Wakes the first in the line.
    room: Notify,
}

impl Bound {
    pub(crate) fn new(limit: usize, what: &'static str) -> Self {
        Self {
            limit,
            what,
            used: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            turn: Mutex::new(()),
            room: Notify::new(),
        }
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes room for `n`, which goes back unless it is kept.
    pub(crate) async fn take(&self, n: usize, overload: Overload) -> Result<Room<'_>, WireError> {
        let may_wait = overload == Overload::Wait;
        let behind_others = may_wait && self.waiting.load(Ordering::SeqCst) > 0;
        if !behind_others && self.try_take(n) {
            return Ok(Room { bound: self, n });
        }
        if !may_wait || n > self.limit {
            return Err(WireError::Overloaded { limit: self.limit, what: self.what });
        }
        // Counted before the look at the room: who gives room after that look sees it.
        let _waiting = Waiting::on(&self.waiting);
        let _turn = self.turn.lock().await;
        while !self.try_take(n) {
            self.room.notified().await;
        }
        Ok(Room { bound: self, n })
    }

    fn try_take(&self, n: usize) -> bool {
        let fits = |used: usize| used.checked_add(n).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }

    /// Takes room without asking: for the few commands of the connector's own.
    pub(crate) fn claim(&self, n: usize) {
        self.used.fetch_add(n, Ordering::SeqCst);
    }

    pub(crate) fn give(&self, n: usize) {
        self.used.fetch_sub(n, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Kept for the next in the line when the first hasn't begun to listen.
            self.room.notify_one();
        }
    }
}

/// Room that was taken.
#[must_use]
#[derive(Debug)]
pub(crate) struct Room<'a> {
    bound: &'a Bound,
    n: usize,
}

impl Room<'_> {
    /// Leaves it to somebody else to give the room back.
    pub(crate) fn keep(mut self) {
        self.n = 0;
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.n > 0 {
            self.bound.give(self.n);
        }
    }
}

/// Counts a waiting caller, also one whose future is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn on(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// One look at a future, as a runtime would take it.
    fn look<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn taken(bound: &Bound, n: usize) -> bool {
        match look(pin!(bound.take(n, Overload::Refuse))) {
            Poll::Ready(Ok(room)) => {
                room.keep();
                true
            }
            _ => false,
        }
    }

    #[test]
    fn the_bound_is_exact_and_room_comes_back() {
        let bound = Bound::new(3, "commands");
        assert!(taken(&bound, 2) && taken(&bound, 1) && !taken(&bound, 1));
        bound.give(1);
        assert!(!taken(&bound, 2) && taken(&bound, 1));
        assert!(!taken(&bound, usize::MAX), "a sum over the integers is over the bound");
        assert_eq!(bound.used(), 3);
    }

    #[test]
    fn more_than_the_bound_is_never_waited_for() {
        let bound = Bound::new(3, "commands");
        let outcome = look(pin!(bound.take(4, Overload::Wait)));
        assert!(matches!(outcome, Poll::Ready(Err(WireError::Overloaded { limit: 3, .. }))));
    }

    #[test]
    fn a_large_waiter_is_not_passed_by_small_ones() {
        let bound = Bound::new(4, "commands");
        assert!(taken(&bound, 4));
        let mut large = pin!(bound.take(4, Overload::Wait));
        assert!(look(large.as_mut()).is_pending());
        bound.give(3);
        assert!(look(large.as_mut()).is_pending());
        let mut small = pin!(bound.take(1, Overload::Wait));
        assert!(look(small.as_mut()).is_pending(), "it came later");
        bound.give(1);
        let Poll::Ready(Ok(room)) = look(large.as_mut()) else { panic!("there is room") };
        drop(room);
        assert!(look(small.as_mut()).is_ready());
    }

    #[test]
    fn a_waiter_that_leaves_takes_nothing_along() {
        let bound = Bound::new(1, "commands");
        assert!(taken(&bound, 1));
        let mut next = Box::pin(bound.take(1, Overload::Wait));
        let mut last = pin!(bound.take(1, Overload::Wait));
        assert!(look(next.as_mut()).is_pending() && look(last.as_mut()).is_pending());
        // Woken, and gone before it looked.
        bound.give(1);
        drop(next);
        let Poll::Ready(Ok(room)) = look(last.as_mut()) else { panic!("the line moves on") };
        drop(room);
        assert_eq!((bound.used(), bound.waiting.load(Ordering::SeqCst)), (0, 0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn threads_that_take_and_give_never_pass_the_bound_nor_hang() {
        let bound = Arc::new(Bound::new(3, "commands"));
        let inside = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let (bound, inside) = (Arc::clone(&bound), Arc::clone(&inside));
            tasks.spawn(async move {
                let n = 1 + task % 3;
                for _ in 0..500 {
                    let room = bound.take(n, Overload::Wait).await.unwrap();
                    assert!(inside.fetch_add(n, Ordering::SeqCst) + n <= 3);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(n, Ordering::SeqCst);
                    drop(room);
                }
            });
        }
        while let Some(outcome) = tasks.join_next().await {
            outcome.unwrap();
        }
        assert_eq!(bound.used(), 0);
    }
}
