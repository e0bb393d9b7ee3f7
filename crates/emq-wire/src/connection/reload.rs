//! Scripts by digest: the calls that the server didn't know are loaded and sent again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::sync::Mutex;

use super::Connection;
use crate::codec::{Cmd, Encoded, Pipeline, Reply, ScriptSpan};
use crate::error::WireError;
use crate::script::Script;

/// A call that misses is loaded and sent again at most this often.
const MAX_LOADS: usize = 2;

/// Loads each missing script once, however many callers miss it at the same time.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    /// Counts loads; a call notes it when it is sent.
    generation: AtomicU64,
    /// The generation of each script's last load, by digest.
    loaded: Mutex<HashMap<String, u64>>,
}

impl Connection {
    /// One script call, with its reload.
    pub(super) async fn call_script(&self, encoded: Encoded) -> Result<Reply, WireError> {
        let sent = self.0.loader.generation.load(Ordering::Acquire);
        let again = encoded.clone();
        let reply = self.submit_one(encoded).await?;
        if !is_missing(&reply) {
            return Ok(reply);
        }
        let name = again.scripts[0].script.name().to_owned();
        let mut replies = vec![reply];
        self.resend_missing(&again.bytes, &again.scripts, &mut replies, sent, None).await?;
        match replies.pop() {
            Some(reply) if !is_missing(&reply) => Ok(reply),
            _ => Err(WireError::ScriptLost { name }),
        }
    }

    /// A whole submission. A `tail` command is sent behind it, and again behind every repetition;
    /// its last reply is appended to the replies.
    pub(crate) async fn submit_reloading(
        &self,
        mut encoded: Encoded,
        tail: Option<&Cmd>,
    ) -> Result<Vec<Reply>, WireError> {
        if let Some(tail) = tail {
            let tail = tail.to_bytes();
            let mut bytes = BytesMut::with_capacity(encoded.bytes.len() + tail.len());
            bytes.extend_from_slice(&encoded.bytes);
            bytes.extend_from_slice(&tail);
            encoded.bytes = bytes.freeze();
            encoded.replies += 1;
        }
        if encoded.scripts.is_empty() {
            return self.submit_many(encoded).await;
        }
        let sent = self.0.loader.generation.load(Ordering::Acquire);
        let (bytes, scripts) = (encoded.bytes.clone(), encoded.scripts.clone());
        let mut replies = self.submit_many(encoded).await?;
        self.resend_missing(&bytes, &scripts, &mut replies, sent, tail).await?;
        Ok(replies)
    }

    /// Loads what is missing and sends just those calls again, into their own places. A call that
    /// misses even then keeps its NOSCRIPT reply.
    async fn resend_missing(
        &self,
        bytes: &Bytes,
        scripts: &[ScriptSpan],
        replies: &mut [Reply],
        mut sent: u64,
        tail: Option<&Cmd>,
    ) -> Result<(), WireError> {
        for _ in 0..MAX_LOADS {
            let missing: Vec<&ScriptSpan> =
                scripts.iter().filter(|span| is_missing(&replies[span.index])).collect();
            if missing.is_empty() {
                break;
            }
            self.load_once(missing.iter().map(|span| &span.script), sent).await?;
            sent = self.0.loader.generation.load(Ordering::Acquire);
            let again = repetition(bytes, &missing, tail);
            let mut answers = self.submit_many(again).await?.into_iter();
            for (span, answer) in missing.iter().zip(answers.by_ref()) {
                replies[span.index] = answer;
            }
            if let (Some(answer), Some(last)) = (answers.next(), replies.last_mut()) {
                *last = answer;
            }
        }
        Ok(())
    }

    /// Loads the scripts that nobody has loaded since `sent`, in one pipeline.
    async fn load_once<'a>(
        &self,
        scripts: impl Iterator<Item = &'a Script>,
        sent: u64,
    ) -> Result<(), WireError> {
        let loader = &self.0.loader;
        let mut loaded = loader.loaded.lock().await;
        let mut wanted: Vec<&Script> = Vec::new();
        for script in scripts {
            let fresh = loaded.get(script.sha1()).is_some_and(|generation| *generation > sent);
            if !fresh && !wanted.contains(&script) {
                wanted.push(script);
            }
        }
        let pipeline: Pipeline = wanted.iter().map(|script| script.load()).collect();
        for (script, reply) in wanted.iter().zip(self.submit_many(pipeline.encode()).await?) {
            script.check_loaded(reply)?;
            self.0.core.tally.script_loads.add(1);
            let generation = loader.generation.fetch_add(1, Ordering::AcqRel) + 1;
            loaded.insert(script.sha1().to_owned(), generation);
        }
        Ok(())
    }
}

/// The bytes of the missing calls alone, and the tail behind them.
fn repetition(bytes: &Bytes, missing: &[&ScriptSpan], tail: Option<&Cmd>) -> Encoded {
    let mut out = BytesMut::new();
    let mut scripts = Vec::with_capacity(missing.len());
    for (index, span) in missing.iter().enumerate() {
        let start = out.len();
        out.extend_from_slice(&bytes[span.bytes.clone()]);
        scripts.push(ScriptSpan { index, bytes: start..out.len(), script: span.script.clone() });
    }
    if let Some(tail) = tail {
        out.extend_from_slice(&tail.to_bytes());
    }
    let replies = missing.len() + usize::from(tail.is_some());
    Encoded { bytes: out.freeze(), replies, scripts, hazard: None }
}

fn is_missing(reply: &Reply) -> bool {
    reply.as_error().is_some_and(|error| error.is("NOSCRIPT"))
}
