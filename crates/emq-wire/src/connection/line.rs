//! The line of those who wait for replies, first in, first out.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::core::Core;
use super::request::{Slot, SlotKind};
use crate::codec::Reply;
use crate::error::WireError;

/// Callers are answered in waves of a quarter of those who wait, at the least of this many. While
/// the server works for three quarters, the callers of the fourth make their next calls: one write
/// for all of them would leave server and client waiting for each other in turn.
const WAVE_LEAST: usize = 16;

pub(crate) struct Line {
    slots: VecDeque<Slot>,
    /// Replies that have found their callers and aren't handed out yet.
    ready: Vec<Answer>,
    /// How many callers' replies came since the last handing out.
    routed: usize,
}

enum Answer {
    One(oneshot::Sender<Result<Reply, WireError>>, Reply),
    Many(oneshot::Sender<Result<Vec<Reply>, WireError>>, Vec<Reply>),
}

impl Line {
    pub(crate) fn new() -> Self {
        Self { slots: VecDeque::new(), ready: Vec::with_capacity(WAVE_LEAST), routed: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn join(&mut self, slot: Slot) {
        self.slots.push_back(slot);
    }

    /// Finds a reply's place: the first slot in line.
    pub(crate) fn route(&mut self, reply: Reply) -> Result<(), WireError> {
        let unasked =
            || WireError::Unexpected { step: "nothing", found: "a reply nobody asked for".into() };
        let slot = self.slots.front_mut().ok_or_else(unasked)?;
        if let SlotKind::Many { missing, got, .. } = &mut slot.kind
            && *missing > 1
        {
            got.push(reply);
            *missing -= 1;
            self.routed += 1;
            return Ok(());
        }
        match self.slots.pop_front().ok_or_else(unasked)?.kind {
            SlotKind::Probe => return Ok(()),
            SlotKind::One(caller) => self.ready.push(Answer::One(caller, reply)),
            SlotKind::Many { mut got, caller, .. } => {
                got.push(reply);
                self.ready.push(Answer::Many(caller, got));
            }
        }
        self.routed += 1;
        Ok(())
    }

    /// Whether enough callers are ready to be answered before more replies are looked at.
    pub(crate) fn is_wave(&self) -> bool {
        self.ready.len() >= WAVE_LEAST && self.ready.len() * 3 >= self.slots.len()
    }

    /// Answers the callers whose replies are complete. Their room is given back first: one who
    /// calls again at once must find it. A caller that left is no reason to stop.
    pub(crate) fn hand_out(&mut self, core: &Core) {
        let routed = std::mem::take(&mut self.routed);
        if routed > 0 {
            core.commands.give(routed);
            core.tally.replies.add(routed);
        }
        for answer in self.ready.drain(..) {
            match answer {
                Answer::One(caller, reply) => drop(caller.send(Ok(reply))),
                Answer::Many(caller, replies) => drop(caller.send(Ok(replies))),
            }
        }
    }

    /// Takes everybody who still waits out of the line.
    pub(crate) fn leave(&mut self) -> impl Iterator<Item = Slot> + '_ {
        self.slots.drain(..)
    }
}
