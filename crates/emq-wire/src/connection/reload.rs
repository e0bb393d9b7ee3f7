//! Scripts by digest: the calls that the server didn't know are loaded and sent again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use tokio::sync::Mutex;

use super::Connection;
use super::core::Entry;
use crate::codec::{Cmd, Encoded, Pipeline, Reply, ScriptSpan, ServerError};
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

/// What came of a submission whose missing scripts were loaded.
#[derive(Debug)]
pub(crate) struct Reloaded {
    pub(crate) replies: Vec<Reply>,
    /// The replies to the tail, one for each time that it was sent.
    pub(crate) tails: Vec<Reply>,
}

impl Connection {
    /// One script call, with its reload.
    pub(super) async fn call_script(&self, encoded: Encoded) -> Result<Reply, WireError> {
        let sent = self.0.loader.generation.load(Ordering::Acquire);
        let again = encoded.clone();
        let reply = self.submit_one(encoded, Entry::Caller).await?;
        if !is_missing(&reply) {
            return Ok(reply);
        }
        let name = again.scripts[0].script.name().to_owned();
        let mut outcome = Reloaded { replies: vec![reply], tails: Vec::new() };
        self.resend_missing(&again.bytes, &again.scripts, &mut outcome, sent, None).await?;
        match outcome.replies.pop() {
            Some(reply) if !is_missing(&reply) => Ok(reply),
            _ => Err(WireError::ScriptLost { name }),
        }
    }

    /// A whole submission. A `tail` command is sent behind it, and again behind every repetition.
    pub(crate) async fn submit_reloading(
        &self,
        mut encoded: Encoded,
        tail: Option<&Cmd>,
    ) -> Result<Reloaded, WireError> {
        if let Some(tail) = tail {
            let tail = tail.to_bytes();
            let mut bytes = BytesMut::with_capacity(encoded.bytes.len() + tail.len());
            bytes.extend_from_slice(&encoded.bytes);
            bytes.extend_from_slice(&tail);
            encoded.bytes = bytes.freeze();
            encoded.replies += 1;
        }
        let sent = self.0.loader.generation.load(Ordering::Acquire);
        let (bytes, scripts) = (encoded.bytes.clone(), encoded.scripts.clone());
        let replies = self.submit_many(encoded, Entry::Caller).await?;
        let mut outcome = Reloaded { replies, tails: Vec::new() };
        if tail.is_some() {
            outcome.tails.extend(outcome.replies.pop());
        }
        if !scripts.is_empty() {
            self.resend_missing(&bytes, &scripts, &mut outcome, sent, tail).await?;
        }
        Ok(outcome)
    }

    /// Loads what is missing and sends just those calls again, into their own places. A call that
    /// misses even then keeps its NOSCRIPT reply; one whose script the server refuses to load
    /// gets that refusal for its reply, as if the call itself had met it.
    async fn resend_missing(
        &self,
        bytes: &Bytes,
        scripts: &[ScriptSpan],
        outcome: &mut Reloaded,
        mut sent: u64,
        tail: Option<&Cmd>,
    ) -> Result<(), WireError> {
        let replies = &mut outcome.replies;
        for _ in 0..MAX_LOADS {
            let missing: Vec<&ScriptSpan> =
                scripts.iter().filter(|span| is_missing(&replies[span.index])).collect();
            if missing.is_empty() {
                break;
            }
            let others_ran = missing.len() < replies.len();
            let honest = |error| if others_ran { after_a_part(error) } else { error };
            let wanted = missing.iter().map(|span| &span.script);
            if let Err(refusal) = self.load_once(wanted, sent).await.map_err(honest)? {
                for span in missing {
                    replies[span.index] = Reply::Error(refusal.clone());
                }
                break;
            }
            sent = self.0.loader.generation.load(Ordering::Acquire);
            let again = repetition(bytes, &missing, tail);
            let answers = self.submit_many(again, Entry::Again).await.map_err(honest)?;
            let mut answers = answers.into_iter();
            for (span, answer) in missing.iter().zip(answers.by_ref()) {
                replies[span.index] = answer;
            }
            outcome.tails.extend(answers);
        }
        Ok(())
    }

    /// Loads the scripts that nobody has loaded since `sent`, in one pipeline. The inner error is
    /// the server's refusal to load one.
    async fn load_once<'a>(
        &self,
        scripts: impl Iterator<Item = &'a Script>,
        sent: u64,
    ) -> Result<Result<(), ServerError>, WireError> {
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
        let replies = self.submit_many(pipeline.encode(), Entry::Own).await?;
        for (script, reply) in wanted.iter().zip(replies) {
            match script.check_loaded(reply) {
                Err(WireError::Server { source, .. }) => return Ok(Err(source)),
                outcome => outcome?,
            }
            self.0.core.tally.script_loads.add(1);
            let generation = loader.generation.fetch_add(1, Ordering::AcqRel) + 1;
            loaded.insert(script.sha1().to_owned(), generation);
        }
        Ok(Ok(()))
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
    Encoded { bytes: out.freeze(), replies, scripts, hazard: None, at_once: false }
}

/// A repetition failed before it left, but other commands of the submission have run: an error
/// that says "nothing was sent" would be a lie about those.
fn after_a_part(error: WireError) -> WireError {
    match error {
        WireError::Disconnected { .. } | WireError::NotReady | WireError::Overloaded { .. } => {
            WireError::Disconnected { written: true }
        }
        other => other,
    }
}

fn is_missing(reply: &Reply) -> bool {
    reply.as_error().is_some_and(|error| error.is("NOSCRIPT"))
}
