//! What the parts of a worker share, and how they are started.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use emq_wire::ConnectionState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use super::park::Parker;
use super::rounds::Rounds;
use super::route::Routes;
use super::status::{Phase, Tally, WorkerStatus};
use super::stop::Running;
use super::{Settings, Worker};
use crate::error::Error;
use crate::queue::Queue;
use crate::ticket::Tickets;

/// What the loop, the attempts and the handle of one worker share.
pub(super) struct Inside {
    pub(super) queue: Queue,
    pub(super) settings: Settings,
    pub(super) routes: Routes,
    pub(super) tickets: Tickets,
    pub(super) tally: Tally,
    pub(super) pace: Pace,
    pub(super) status: watch::Sender<WorkerStatus>,
    pub(super) failure: OnceLock<Error>,
    /// The worker stops: nothing more is claimed.
    pub(super) stopping: CancellationToken,
    /// The grace is over: what still runs is handed back.
    pub(super) handing_back: CancellationToken,
    /// Time is up: what isn't settled is left to its lease.
    pub(super) ended: CancellationToken,
}

impl Inside {
    /// Says what the worker does, to those who watch.
    pub(super) fn enter(&self, phase: Phase, in_flight: usize) {
        self.status.send_if_modified(|status| {
            if status.phase != phase {
                tracing::debug!(queue = %self.queue.name(), ?phase, "worker");
            }
            let next = WorkerStatus { phase, in_flight };
            std::mem::replace(status, next) != next
        });
    }

    /// Says how many jobs are held, to those who watch.
    pub(super) fn tell_in_flight(&self, in_flight: usize) {
        self.status.send_if_modified(|status| {
            let next = WorkerStatus { in_flight, ..*status };
            std::mem::replace(status, next) != next
        });
    }

    /// Waits for some part of `pause` at random, then for the connection to be in service.
    pub(super) async fn pause_until_ready(&self, pause: Duration) {
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        let mut state = self.queue.bus().state();
        let settled = |state: &ConnectionState| {
            state.is_terminal() || matches!(state, ConnectionState::Ready)
        };
        // An error means that the connection is over, which the next call says better.
        let _ = state.wait_for(settled).await;
    }
}

pub(super) fn start(queue: Queue, settings: Settings, routes: Routes) -> Worker {
    let status = WorkerStatus { phase: Phase::Starting, in_flight: 0 };
    let inside = Arc::new(Inside {
        tickets: Tickets::fresh(),
        routes,
        tally: Tally::default(),
        pace: Pace::default(),
        status: watch::Sender::new(status),
        failure: OnceLock::new(),
        stopping: CancellationToken::new(),
        handing_back: CancellationToken::new(),
        ended: CancellationToken::new(),
        queue,
        settings,
    });
    let parker = Parker::start(&inside);
    let rounds = tokio::spawn(Rounds::new(Arc::clone(&inside), parker).run());
    Worker { inside, running: Running::new(rounds) }
}
