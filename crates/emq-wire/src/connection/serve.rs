//! One connection in service: requests out, replies in, in one hand-written poll loop.
//!
//! The loop takes whatever callers have queued, writes it in one go, reads what came and routes
//! it to the first slot in line. Before a write it yields once, so that callers woken by the
//! last read can add theirs to the same write; a call that asks for it is written at once, and so
//! is one that is the only one, as the one before was: nobody is there to add anything, and a
//! yield would wake another thread of the runtime.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::core::Core;
use super::line::Line;
use super::link::BootLink;
use super::request::{Request, Slot, SlotKind};
use super::socket::Socket;
use crate::codec::{Cmd, Decoder, Reply};
use crate::error::WireError;

/// Requests are moved into the output buffer up to this many bytes at a time.
const WRITE_BATCH_BYTES: usize = 256 * 1024;
/// Room made for reads, when less than the least is left.
const READ_BYTES: usize = 64 * 1024;
const READ_LEAST_BYTES: usize = 8 * 1024;
/// Stands for "never" where a duration is too long for the clock.
const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

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
    line: Line,
    /// Bytes put into `out` since the connection came up.
    queued: u64,
    /// Bytes of those that the socket has taken.
    written: u64,
    /// How many calls joined since the last write was done, and how many before that one.
    joined: usize,
    joined_before: usize,
    /// Whether the loop already gave way for the bytes now in `out`.
    yielded: bool,
    /// Whether replies that were read wait for the next wave.
    unrouted: bool,
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
        link.pushes.into_iter().for_each(|frame| core.push(frame));
        Self {
            core,
            socket: link.socket,
            decoder: link.decoder,
            read: link.read,
            out: BytesMut::with_capacity(16 * 1024),
            line: Line::new(),
            queued: 0,
            written: 0,
            joined: 0,
            joined_before: 0,
            yielded: false,
            unrouted: false,
            phase: Phase::Serving,
            last_read: Instant::now(),
            probing: false,
            alarm,
        }
    }

    /// Serves until the owner closes or the peer is lost.
    pub(crate) async fn run(&mut self, requests: &mut mpsc::UnboundedReceiver<Request>) -> Ended {
        // What came behind the last reply of the ladder answers nobody.
        if let Err(error) = self.route_wave() {
            return Ended::Lost(error);
        }
        poll_fn(|cx| self.poll(cx, requests)).await
    }

    /// Whether the owner said goodbye: a loss is the end then.
    pub(crate) fn is_closing(&self) -> bool {
        self.phase == Phase::Closing
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        requests: &mut mpsc::UnboundedReceiver<Request>,
    ) -> Poll<Ended> {
        loop {
            self.accept(cx, requests);
            if !self.out.is_empty() && !self.yielded && !self.is_lonely() {
                self.yielded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let wrote = match self.poll_write(cx) {
                Ok(wrote) => wrote,
                Err(error) => {
                    // A peer that hung up may have answered a part before.
                    while let Ok(true) = self.poll_read(cx) {}
                    return Poll::Ready(Ended::Lost(error));
                }
            };
            let read = match self.poll_read(cx) {
                Ok(read) => read,
                Err(error) => return Poll::Ready(Ended::Lost(error)),
            };
            if self.phase != Phase::Serving && self.line.is_empty() && self.out.is_empty() {
                return Poll::Ready(match self.phase {
                    Phase::Closing => Ended::Closed,
                    _ => Ended::Lost(WireError::Disconnected { written: false }),
                });
            }
            if let Err(error) = self.poll_alarm(cx) {
                return Poll::Ready(match self.phase {
                    Phase::Closing => Ended::Closed,
                    _ => Ended::Lost(error),
                });
            }
            if self.unrouted {
                // The callers just answered may add to the next write, which comes before the
                // next wave.
                self.yielded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
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
                Poll::Ready(Some(Request::Call { bytes, replies, waiter, at_once })) => {
                    self.yielded |= at_once;
                    self.line.join(Slot::new(self.queued, replies, waiter));
                    self.joined += 1;
                    self.queued += bytes.len() as u64;
                    self.out.extend_from_slice(&bytes);
                }
            }
        }
    }

    /// Whether the one call to be written is the only one, and so was the last.
    fn is_lonely(&self) -> bool {
        self.joined_before <= 1 && self.line.len() == 1
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
        if wrote {
            self.joined_before = std::mem::take(&mut self.joined);
        }
        Ok(wrote)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<bool, WireError> {
        if self.unrouted {
            self.route_wave()?;
            return Ok(true);
        }
        // Replies that callers still hold share the buffer; it is replaced when it is nearly full,
        // not at every read.
        if self.read.capacity() - self.read.len() < READ_LEAST_BYTES {
            self.read.reserve(READ_BYTES);
        }
        let taken = match pin!(self.socket.read_buf(&mut self.read)).poll(cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Ok(n)) if n > 0 => n,
            Poll::Ready(_) => return Err(WireError::Disconnected { written: true }),
        };
        self.core.tally.bytes_in.add(taken);
        self.last_read = Instant::now();
        if std::mem::take(&mut self.probing) {
            // The bound of the answer is over: the next probe is a heartbeat away.
            self.alarm.as_mut().reset(after(self.last_read, self.core.config.heartbeat));
        }
        self.route_wave()?;
        Ok(true)
    }

    /// Decodes what was read, a wave at a time, and answers its callers, also those before a frame
    /// that is no frame.
    fn route_wave(&mut self) -> Result<(), WireError> {
        let outcome = self.route_each();
        self.line.hand_out(&self.core);
        outcome
    }

    fn route_each(&mut self) -> Result<(), WireError> {
        self.unrouted = false;
        while let Some(reply) = self.decoder.decode(&mut self.read)? {
            if let Reply::Push(_) = reply {
                self.core.push(reply);
                continue;
            }
            if reply.as_error().is_some_and(|error| error.is("READONLY"))
                && self.phase == Phase::Serving
            {
                self.phase = Phase::Leaving;
            }
            self.line.route(reply)?;
            if self.line.is_wave() {
                self.unrouted = !self.read.is_empty();
                return Ok(());
            }
        }
        Ok(())
    }

    /// Probes a quiet peer, and gives up on one that doesn't answer within its bound.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Result<(), WireError> {
        while self.alarm.as_mut().poll(cx).is_ready() {
            let config = &self.core.config;
            let quiet = self.last_read.elapsed();
            let next = if quiet < config.heartbeat {
                after(self.last_read, config.heartbeat)
            } else if self.probing {
                return Err(WireError::Disconnected { written: true });
            } else {
                self.probing = true;
                let ping = Cmd::new("PING").encode().bytes;
                self.line.join(Slot { start: self.queued, kind: SlotKind::Probe });
                self.queued += ping.len() as u64;
                self.core.bytes.claim(ping.len());
                self.out.extend_from_slice(&ping);
                // The bytes leave with the next turn of the loop.
                cx.waker().wake_by_ref();
                after(Instant::now(), config.heartbeat_timeout)
            };
            self.alarm.as_mut().reset(next);
        }
        Ok(())
    }

    /// Answers everybody in line, with whether their bytes had begun to leave. Whose reply broke
    /// the protocol hears that: asking again would break it again.
    pub(crate) fn fail_all(&mut self, ended: &Ended) {
        self.core.bytes.give(self.out.len());
        self.out.clear();
        let mut culprit = match ended {
            Ended::Lost(error @ WireError::Protocol(_)) => Some(error.clone()),
            _ => None,
        };
        for slot in self.line.leave() {
            self.core.commands.give(slot.missing());
            let written = slot.start < self.written;
            let culprit = culprit.take().filter(|_| written);
            slot.fail(match ended {
                Ended::Closed => WireError::Closed,
                Ended::Lost(_) => culprit.unwrap_or(WireError::Disconnected { written }),
            });
        }
    }
}

/// A runtime that goes down drops the driver in the middle: nobody is left without an answer.
impl Drop for Serving {
    fn drop(&mut self) {
        self.fail_all(&Ended::Closed);
    }
}

fn after(start: Instant, pause: Duration) -> Instant {
    start.checked_add(pause).unwrap_or_else(|| start + NEVER)
}
