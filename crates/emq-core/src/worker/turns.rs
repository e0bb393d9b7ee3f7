//! Turns on their way: what each carries, and how its answer finds back.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use emq_scripts::{CallError, Extension, Settle, Turn, Turned};
use tokio::time::Instant;

use super::held::Extending;
use super::inside::Inside;
use super::settle::Untold;

/// The most turns on their way at once: while the server runs one, handlers of the last one end
/// and the next is written.
pub(super) const TURNS_MAX: usize = 2;
/// The most jobs that a turn settles, and claims. A call of a hundred holds the server for a
/// millisecond or two.
pub(super) const JOBS_MAX: usize = 100;
/// How many jobs one turn promotes, and reaps, at most.
const STEP: u32 = 200;

/// What a turn carries.
#[derive(Debug)]
pub(super) struct Load {
    /// Turns are numbered in the order in which they are sent, from 1.
    pub(super) number: u64,
    /// The moment before it was sent, from which its leases count here.
    pub(super) sent: Instant,
    /// The mark of its claims.
    pub(super) ticket: Arc<str>,
    /// The most jobs that it claims.
    pub(super) claims: usize,
    /// Whether it takes expired leases back.
    pub(super) reaps: bool,
    pub(super) settles: Vec<Untold>,
    pub(super) extensions: Vec<Extending>,
}

impl Load {
    async fn carry(self, inside: Arc<Inside>) -> Landed {
        let answer = self.call(&inside).await;
        Landed { load: self, answer }
    }

    async fn call(&self, inside: &Inside) -> Result<Turned, CallError> {
        let settings = &inside.settings;
        let settles: Vec<Settle<'_>> = self.settles.iter().map(Untold::settle).collect();
        let extensions: Vec<Extension<'_>> = self
            .extensions
            .iter()
            .map(|one| Extension {
                id: one.hold.id,
                token: one.hold.token,
                ticket: one.hold.ticket(),
            })
            .collect();
        let turn = Turn {
            ticket: Some(&self.ticket),
            lease: settings.lease,
            claim: u32::try_from(self.claims).unwrap_or(u32::MAX),
            promote: STEP,
            reap: if self.reaps { STEP } else { 0 },
            lost_cap: settings.lost_cap,
            max_attempts: settings.max_attempts,
            settles: &settles,
            extensions: &extensions,
        };
        inside.queue.call(&turn).await
    }
}

/// A turn that has ended.
pub(super) struct Landed {
    pub(super) load: Load,
    pub(super) answer: Result<Turned, CallError>,
}

/// The turns on their way, in the order in which they were sent.
#[derive(Default)]
pub(super) struct Turns {
    on_the_way: VecDeque<Pin<Box<dyn Future<Output = Landed> + Send>>>,
    /// Those that ended as soon as they were sent.
    ended: VecDeque<Landed>,
    claims: usize,
}

impl Turns {
    pub(super) fn len(&self) -> usize {
        self.on_the_way.len() + self.ended.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many jobs they may claim.
    pub(super) fn claims(&self) -> usize {
        self.claims
    }

    /// Sends one. It is on its way when this returns.
    pub(super) async fn send(&mut self, inside: &Arc<Inside>, load: Load) {
        self.claims += load.claims;
        let mut turn = Box::pin(load.carry(Arc::clone(inside)));
        let first = std::future::poll_fn(|cx| Poll::Ready(turn.as_mut().poll(cx)));
        match first.await {
            Poll::Ready(landed) => self.ended.push_back(landed),
            Poll::Pending => self.on_the_way.push_back(turn),
        }
    }

    /// The next one that has ended; never, when there is none.
    pub(super) async fn landed(&mut self) -> Landed {
        let landed = std::future::poll_fn(|cx| self.poll_landed(cx)).await;
        self.claims -= landed.load.claims;
        landed
    }

    fn poll_landed(&mut self, cx: &mut TaskContext<'_>) -> Poll<Landed> {
        if let Some(landed) = self.ended.pop_front() {
            return Poll::Ready(landed);
        }
        for place in 0..self.on_the_way.len() {
            if let Poll::Ready(landed) = self.on_the_way[place].as_mut().poll(cx) {
                drop(self.on_the_way.remove(place));
                return Poll::Ready(landed);
            }
        }
        Poll::Pending
    }
}
