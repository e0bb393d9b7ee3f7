//! Several commands as one submission.

use bytes::Bytes;

use super::Cmd;
use super::hazard::{Hazard, Transaction};
use crate::error::WireError;
use crate::script::Script;

/// Several commands sent as one submission; the replies come back in the same order.
///
/// A transaction (`MULTI` to `EXEC`) may stand in a pipeline that holds the whole of it; a part
/// of one is refused, since the commands of other callers would fall into it. A script called
/// inside a transaction isn't loaded on demand (its `NOSCRIPT` comes inside the reply of `EXEC`,
/// when the rest has run): load it first.
///
/// ```
/// use emq_wire::{Cmd, Pipeline};
/// let mut pipeline = Pipeline::new();
/// pipeline.push(Cmd::new("INCR").arg("n"));
/// pipeline.push(Cmd::new("GET").arg("n"));
/// assert_eq!(pipeline.len(), 2);
/// ```
#[derive(Clone, Default)]
pub struct Pipeline {
    buf: Vec<u8>,
    replies: usize,
    scripts: Vec<ScriptSpan>,
    hazard: Option<Hazard>,
    transaction: Transaction,
}

/// Where in a submission a script call stands, so that it alone can be sent again.
#[derive(Clone, Debug)]
pub(crate) struct ScriptSpan {
    /// Its place among the replies.
    pub(crate) index: usize,
    /// Its bytes in the submission.
    pub(crate) bytes: std::ops::Range<usize>,
    pub(crate) script: Script,
}

/// A submission ready to be written.
#[derive(Clone)]
pub(crate) struct Encoded {
    pub(crate) bytes: Bytes,
    pub(crate) replies: usize,
    pub(crate) scripts: Vec<ScriptSpan>,
    pub(crate) hazard: Option<Hazard>,
    /// Whether it is written without waiting for what others may add.
    pub(crate) at_once: bool,
}

impl Encoded {
    /// Refuses what may not travel on a shared connection.
    pub(crate) fn check(&self) -> Result<(), WireError> {
        self.hazard.map_or(Ok(()), |hazard| Err(hazard.refusal()))
    }

    /// Several submissions as one, in order. Each was judged for its hazards on its own.
    pub(crate) fn join<'a>(parts: impl Iterator<Item = &'a Encoded>) -> Encoded {
        let mut joined = Pipeline::new();
        for part in parts {
            let start = joined.buf.len();
            joined.buf.extend_from_slice(&part.bytes);
            joined.scripts.extend(part.scripts.iter().map(|span| ScriptSpan {
                index: joined.replies + span.index,
                bytes: start + span.bytes.start..start + span.bytes.end,
                script: span.script.clone(),
            }));
            joined.replies += part.replies;
        }
        joined.encode()
    }
}

impl Pipeline {
    /// An empty pipeline.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty pipeline with room for `bytes` of encoded commands.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { buf: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Adds a command at the end.
    pub fn push(&mut self, mut cmd: Cmd) {
        let start = self.buf.len();
        let hazard = cmd.hazard().and_then(|hazard| self.transaction.see(hazard));
        self.hazard = self.hazard.or(hazard);
        let script = cmd.script().filter(|_| self.transaction != Transaction::Queueing).cloned();
        self.buf.extend_from_slice(cmd.wire());
        if let Some(script) = script {
            let bytes = start..self.buf.len();
            self.scripts.push(ScriptSpan { index: self.replies, bytes, script });
        }
        self.replies += 1;
    }

    /// How many commands, and so replies, it holds.
    pub fn len(&self) -> usize {
        self.replies
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.replies == 0
    }

    /// How many bytes it will take on the wire.
    pub fn byte_len(&self) -> usize {
        self.buf.len()
    }

    pub(crate) fn encode(self) -> Encoded {
        Encoded {
            bytes: Bytes::from(self.buf),
            replies: self.replies,
            scripts: self.scripts,
            hazard: self.hazard.or(self.transaction.end()),
            at_once: false,
        }
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({} commands, {} bytes)", self.replies, self.buf.len())
    }
}

impl FromIterator<Cmd> for Pipeline {
    fn from_iter<I: IntoIterator<Item = Cmd>>(cmds: I) -> Self {
        let mut pipeline = Self::new();
        cmds.into_iter().for_each(|cmd| pipeline.push(cmd));
        pipeline
    }
}

impl Extend<Cmd> for Pipeline {
    fn extend<I: IntoIterator<Item = Cmd>>(&mut self, cmds: I) {
        cmds.into_iter().for_each(|cmd| self.push(cmd));
    }
}
