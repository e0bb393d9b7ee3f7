//! The task that owns the socket's life: up the ladder, serve, lose, and up again.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::ConnectionState;
use super::backoff;
use super::boot::{BootError, Handshake, boot};
use super::core::Core;
use super::request::Request;
use super::serve::{Ended, Serving};
use crate::error::WireError;

pub(crate) struct Driver {
    core: Arc<Core>,
    handshake: Arc<dyn Handshake>,
    requests: mpsc::UnboundedReceiver<Request>,
}

/// What a wait for the next attempt ended with.
enum Waited {
    Elapsed,
    Closed,
}

impl Driver {
    pub(crate) fn new(
        core: Arc<Core>,
        handshake: Arc<dyn Handshake>,
        requests: mpsc::UnboundedReceiver<Request>,
    ) -> Self {
        Self { core, handshake, requests }
    }

    pub(crate) async fn run(mut self) {
        let mut been_ready = false;
        let mut attempt = 0_u32;
        loop {
            match self.come_up(been_ready).await {
                None => return self.end(&WireError::Closed, ConnectionState::Closed),
                Some(Ok(serving)) => {
                    if been_ready {
                        self.core.tally.reconnects.add(1);
                    }
                    been_ready = true;
                    let since = Instant::now();
                    if matches!(self.serve(serving).await, Ended::Closed) {
                        return self.end(&WireError::Closed, ConnectionState::Closed);
                    }
                    self.core.tally.wire_errors.add(1);
                    // A connection that held is forgiven; one that dies at once backs off.
                    if since.elapsed() >= self.core.config.reconnect.cap {
                        attempt = 0;
                    }
                }
                Some(Err(BootError::Fatal(error))) => {
                    return self.end(&error, ConnectionState::Refused(error.clone()));
                }
                Some(Err(BootError::Passing(error))) => self.remember(error),
            }
            attempt = attempt.saturating_add(1);
            if been_ready {
                self.core.enter(ConnectionState::Reconnecting { attempt });
            }
            if let Waited::Closed = self.back_off(attempt).await {
                return self.end(&WireError::Closed, ConnectionState::Closed);
            }
        }
    }

    /// One climb of the ladder; `None` when the owner closed meanwhile.
    async fn come_up(&mut self, reconnect: bool) -> Option<Result<Serving, BootError>> {
        let core = Arc::clone(&self.core);
        let handshake = Arc::clone(&self.handshake);
        let climb = boot(&core.config, &*handshake, reconnect);
        tokio::pin!(climb);
        loop {
            tokio::select! {
                biased;
                outcome = &mut climb => {
                    return Some(outcome.map(|link| {
                        core.tally.script_loads.add(link.loads);
                        Serving::new(Arc::clone(&core), link)
                    }));
                }
                request = self.requests.recv() => self.turn_away(request)?,
            }
        }
    }

    async fn serve(&mut self, mut serving: Serving) -> Ended {
        self.core.enter(ConnectionState::Ready);
        let ended = serving.run(&mut self.requests).await;
        let over = serving.is_closing();
        if let Ended::Lost(error) = &ended {
            tracing::warn!(address = %self.core.config.address, %error, "connection lost");
            self.remember(error.clone());
            if !over {
                self.core.enter(ConnectionState::Reconnecting { attempt: 0 });
            }
        }
        serving.fail_all(&ended);
        if over { Ended::Closed } else { ended }
    }

    /// Exponential backoff with full jitter. Calls that slip in are told at once.
    async fn back_off(&mut self, attempt: u32) -> Waited {
        let pause = backoff::pause(&self.core.config.reconnect, attempt);
        let pause = tokio::time::sleep(pause);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return Waited::Elapsed,
                request = self.requests.recv() => {
                    if self.turn_away(request).is_none() {
                        return Waited::Closed;
                    }
                }
            }
        }
    }

    /// Answers a request that met no connection; `None` when it was the last word.
    fn turn_away(&self, request: Option<Request>) -> Option<()> {
        match request? {
            Request::Close => None,
            Request::Call { bytes, replies, waiter, .. } => {
                self.core.commands.give(replies);
                self.core.bytes.give(bytes.len());
                waiter.fail(WireError::Disconnected { written: false });
                Some(())
            }
        }
    }

    fn remember(&self, error: WireError) {
        *self.core.last_error.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(error);
    }

    /// The terminal state: everybody who is still queued hears why.
    fn end(&mut self, error: &WireError, state: ConnectionState) {
        self.core.enter(state);
        self.requests.close();
        while let Ok(request) = self.requests.try_recv() {
            if let Request::Call { bytes, replies, waiter, .. } = request {
                self.core.commands.give(replies);
                self.core.bytes.give(bytes.len());
                waiter.fail(error.clone());
            }
        }
    }
}

/// However the task ends, a panic of the handshake or the end of the runtime included, nobody
/// waits for it any longer.
impl Drop for Driver {
    fn drop(&mut self) {
        if !self.core.state.borrow().is_terminal() {
            self.end(&WireError::Closed, ConnectionState::Closed);
        }
    }
}
