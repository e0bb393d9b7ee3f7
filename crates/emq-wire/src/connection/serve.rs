//! One connection in service: requests out, replies in, in one hand-written poll loop.
//!
//! The loop takes whatever callers have queued, writes it in one go, reads what came and routes
//! it to the first slot in line. Before a write it yields once, so that callers woken by the
//! last read can add theirs to the same write.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::boot::BootLink;
use super::core::Core;
use super::request::{Request, Slot, SlotKind};
use super::socket::Socket;
use crate::codec::{Cmd, Decoder, Reply};
use crate::error::WireError;

/// Requests are moved into the output buffer up to this many bytes at a time.
const WRITE_BATCH_BYTES: usize = 256 * 1024;
/// Room kept for one read.
const READ_BYTES: usize = 64 * 1024;

/// Why a connection stopped serving.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The owner closed it (or dropped the last handle), and what was accepted is done.
    Closed,
    /// The socket or the peer failed, or moved away.
    Lost(WireError),
}

pub(crate) struct Serving {
    core: Arc<Core>,
    socket: Socket,
    decoder: Decoder,
    read: BytesMut,
    out: BytesMut,
    slots: VecDeque<Slot>,
    /// Bytes put into `out` since the connection came up.
    queued: u64,
    /// Bytes of those that the socket has taken.
    written: u64,
    /// Whether the loop already gave way for the bytes now in `out`.
    yielded: bool,
    phase: Phase,
    last_read: Instant,
    probing: bool,
    alarm: Pin<Box<Sleep>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// A primary turned replica: what is in flight is answered, then the ladder runs again.
    Leaving,
    /// The owner said goodbye: nothing new is accepted.
    Closing,
}

impl Serving {
    pub(crate) fn new(core: Arc<Core>, link: BootLink) -> Self {
        let alarm = Box::pin(tokio::time::sleep(core.config.heartbeat));
        Self {
            core,
            socket: link.socket,
            decoder: link.decoder,
            read: link.read,
            out: BytesMut::with_capacity(16 * 1024),
            slots: VecDeque::new(),
            queued: 0,
            written: 0,
            yielded: false,
            phase: Phase::Serving,
            last_read: Instant::now(),
            probing: false,
            alarm,
        }
    }

    /// Serves until the owner closes or the peer is lost.
    pub(crate) async fn run(&mut self, requests: &mut mpsc::UnboundedReceiver<Request>) -> Ended {
        poll_fn(|cx| self.poll(cx, requests)).await
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        requests: &mut mpsc::UnboundedReceiver<Request>,
    ) -> Poll<Ended> {
        loop {
            self.accept(cx, requests);
            if !self.out.is_empty() && !self.yielded {
                self.yielded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let wrote = match self.poll_write(cx) {
                Ok(wrote) => wrote,
                Err(error) => return Poll::Ready(Ended::Lost(error)),
            };
            let read = match self.poll_read(cx) {
                Ok(read) => read,
                Err(error) => return Poll::Ready(Ended::Lost(error)),
            };
            if self.phase != Phase::Serving && self.slots.is_empty() && self.out.is_empty() {
                return Poll::Ready(match self.phase {
                    Phase::Closing => Ended::Closed,
                    _ => Ended::Lost(WireError::Disconnected { written: false }),
                });
            }
            if let Err(error) = self.poll_alarm(cx) {
                return Poll::Ready(Ended::Lost(error));
            }
            if !wrote && !read {
                return Poll::Pending;
            }
        }
    }

    /// Moves queued requests into the output buffer.
    fn accept(&mut self, cx: &mut Context<'_>, requests: &mut mpsc::UnboundedReceiver<Request>) {
        while self.phase == Phase::Serving && self.out.len() < WRITE_BATCH_BYTES {
            match requests.poll_recv(cx) {
                Poll::Pending => return,
                Poll::Ready(None | Some(Request::Close)) => self.phase = Phase::Closing,
                Poll::Ready(Some(Request::Call { bytes, replies, waiter })) => {
                    self.slots.push_back(Slot::new(self.queued, replies, waiter));
                    self.queued += bytes.len() as u64;
                    self.out.extend_from_slice(&bytes);
                }
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<bool, WireError> {
        let mut wrote = false;
        while !self.out.is_empty() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.out) {
                Poll::Pending => return Ok(wrote),
                Poll::Ready(Ok(n)) if n > 0 => {
                    self.out.advance(n);
                    self.written += n as u64;
                    self.core.bytes.give(n);
                    self.core.tally.bytes_out.add(n);
                    self.core.tally.writes.add(1);
                    wrote = true;
                }
                Poll::Ready(_) => return Err(WireError::Disconnected { written: true }),
            }
        }
        self.yielded = false;
        Ok(wrote)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<bool, WireError> {
        self.read.reserve(READ_BYTES);
        let taken = match pin!(self.socket.read_buf(&mut self.read)).poll(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(n)) if n > 0 => n,
            Poll::Ready(_) => return Err(WireError::Disconnected { written: true }),
        };
        self.core.tally.bytes_in.add(taken);
        self.last_read = Instant::now();
        self.probing = false;
        let mut routed = 0;
        while let Some(reply) = self.decoder.decode(&mut self.read)? {
            match reply {
                Reply::Push(items) => {
                    self.core.tally.pushes.add(1);
                    // A reader that doesn't keep up loses frames, never memory.
                    let _ = self.core.pushes.try_send(Reply::Push(items));
                }
                reply => routed += self.route(reply)?,
            }
        }
        self.core.commands.give(routed);
        self.core.tally.replies.add(routed);
        Ok(true)
    }

    /// Hands a reply to the first slot in line; answers how many callers' replies it was.
    fn route(&mut self, reply: Reply) -> Result<usize, WireError> {
        if reply.as_error().is_some_and(|error| error.is("READONLY"))
            && self.phase == Phase::Serving
        {
            self.phase = Phase::Leaving;
        }
        let unasked =
            || WireError::Unexpected { step: "nothing", found: "a reply nobody asked for".into() };
        let slot = self.slots.front_mut().ok_or_else(unasked)?;
        if let SlotKind::Many { missing, got, .. } = &mut slot.kind {
            got.push(reply);
            *missing -= 1;
            if *missing == 0
                && let Some(Slot { kind: SlotKind::Many { got, caller, .. }, .. }) =
                    self.slots.pop_front()
            {
                let _ = caller.send(Ok(got));
            }
            return Ok(1);
        }
        match self.slots.pop_front().ok_or_else(unasked)?.kind {
            SlotKind::One(caller) => {
                let _ = caller.send(Ok(reply));
                Ok(1)
            }
            _ => Ok(0),
        }
    }

    /// Probes a quiet peer, and gives up on one that doesn't answer within its bound.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Result<(), WireError> {
        while self.alarm.as_mut().poll(cx).is_ready() {
            let config = &self.core.config;
            let quiet = self.last_read.elapsed();
            let next = if quiet < config.heartbeat {
                self.last_read + config.heartbeat
            } else if self.probing {
                return Err(WireError::Disconnected { written: true });
            } else {
                self.probing = true;
                let ping = Cmd::new("PING").encode().bytes;
                self.slots.push_back(Slot { start: self.queued, kind: SlotKind::Probe });
                self.queued += ping.len() as u64;
                self.core.bytes.claim(ping.len());
                self.out.extend_from_slice(&ping);
                // The bytes leave with the next turn of the loop.
                cx.waker().wake_by_ref();
                Instant::now() + config.heartbeat_timeout
            };
            self.alarm.as_mut().reset(next.into());
        }
        Ok(())
    }

    /// Answers everybody in line, with whether their bytes had begun to leave.
    pub(crate) fn fail_all(&mut self, closed: bool) {
        self.core.bytes.give(self.out.len());
        self.out.clear();
        for slot in self.slots.drain(..) {
            self.core.commands.give(slot.missing());
            let written = slot.start < self.written;
            slot.fail(if closed { WireError::Closed } else { WireError::Disconnected { written } });
        }
    }
}
