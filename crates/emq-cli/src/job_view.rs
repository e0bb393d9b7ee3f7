//! A job as it is shown.

use emq_core::JobRecord;
use emq_keys::BrandedId;
use serde::Serialize;

use crate::output::moment;

/// A job's row for scripts.
#[derive(Debug, Serialize)]
pub(crate) struct JobView {
    pub(crate) id: BrandedId,
    pub(crate) queue: String,
    pub(crate) state: String,
    /// RFC 3339, by the producer's clock.
    pub(crate) minted: String,
    pub(crate) minted_ms: u64,
    pub(crate) lane: Option<BrandedId>,
    pub(crate) kind: Option<String>,
    pub(crate) attempts: u64,
    pub(crate) failures: u64,
    pub(crate) lost: u64,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) unique: Option<String>,
    pub(crate) headers: Option<String>,
    pub(crate) holder: Option<String>,
    pub(crate) cancel_asked: bool,
    pub(crate) last_error: Option<String>,
    pub(crate) payload: Blob,
    pub(crate) checkpoint: Option<Blob>,
}

/// Bytes for scripts: as text where they are text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Blob {
    Text(String),
    Hex(String),
}

impl Blob {
    pub(crate) fn new(bytes: &[u8]) -> Blob {
        match std::str::from_utf8(bytes) {
            Ok(text) => Blob::Text(text.to_owned()),
            Err(_) => Blob::Hex(hex(bytes)),
        }
    }
}

impl JobView {
    pub(crate) fn new(queue: &str, record: &JobRecord) -> JobView {
        JobView {
            id: record.id,
            queue: queue.to_owned(),
            state: record.state.to_string(),
            minted: minted(record.id),
            minted_ms: record.id.unix_ms(),
            lane: record.group,
            kind: record.kind.clone(),
            attempts: record.attempts,
            failures: record.failures(),
            lost: record.lost,
            max_attempts: record.max_attempts,
            unique: record.unique.clone(),
            headers: record.headers.clone(),
            holder: record.holder.clone(),
            cancel_asked: record.cancel_asked,
            last_error: record.last_error.clone(),
            payload: Blob::new(&record.payload),
            checkpoint: record.checkpoint.as_deref().map(Blob::new),
        }
    }
}

/// The time in an id.
pub(crate) fn minted(id: BrandedId) -> String {
    moment(std::time::UNIX_EPOCH + std::time::Duration::from_millis(id.unix_ms()))
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
