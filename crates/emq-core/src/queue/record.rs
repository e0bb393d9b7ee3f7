//! A job's row, read.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use emq_keys::BrandedId;
use emq_wire::Reply;

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JobState {
    /// It waits; a claim moves it out.
    Pending,
    /// A worker holds it; a settle or the reaper moves it out.
    Active,
    /// It runs later; its time moves it out.
    Scheduled,
    /// It lies in the morgue; only an operator moves it out.
    Dead,
    /// A state of a version that is newer than this one.
    Other(String),
}

impl JobState {
    fn read(text: &[u8]) -> JobState {
        match text {
            b"pending" => Self::Pending,
            b"active" => Self::Active,
            b"scheduled" => Self::Scheduled,
            b"dead" => Self::Dead,
            other => Self::Other(String::from_utf8_lossy(other).into_owned()),
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Scheduled => "scheduled",
            Self::Dead => "dead",
            Self::Other(other) => other,
        })
    }
}

/// A job's row as it stood at one moment.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobRecord {
    /// The job. Its mint time is in the name: [`BrandedId::unix_ms`].
    pub id: BrandedId,
    /// Where it is in its life.
    pub state: JobState,
    /// How often it was claimed, which is also the latest token.
    pub attempts: u64,
    /// What was enqueued.
    pub payload: Bytes,
    /// Its lane; `None` for the flat set.
    pub group: Option<BrandedId>,
    /// The ticket of the claim that holds it, or held it last.
    pub holder: Option<String>,
    /// How often its lease ended before a settle came.
    pub lost: u64,
    /// How many attempts don't count against its cap.
    pub forgiven: u64,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// What a holder wrote last with `checkpoint`.
    pub checkpoint: Option<Bytes>,
    /// The handler's name.
    pub kind: Option<String>,
    /// Trace context and the like.
    pub headers: Option<String>,
    /// Its own cap of attempts.
    pub max_attempts: Option<u32>,
    /// Its unique key.
    pub unique: Option<String>,
    /// Whether somebody asked its holder to stop.
    pub cancel_asked: bool,
}

impl JobRecord {
    /// Reads `HGETALL`; `None` for an empty row.
    pub(crate) fn read(id: BrandedId, reply: &Reply) -> Option<JobRecord> {
        let mut fields = fields(reply);
        let mut bytes = |name: &str| fields.remove(name.as_bytes());
        let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
        let number = |bytes: Option<Bytes>| {
            bytes.and_then(|bytes| std::str::from_utf8(&bytes).ok()?.parse::<u64>().ok())
        };
        let state = bytes("state")?;
        Some(JobRecord {
            id,
            state: JobState::read(&state),
            attempts: number(bytes("attempts")).unwrap_or(0),
            payload: bytes("payload").unwrap_or_default(),
            group: bytes("group").and_then(|group| BrandedId::parse(&group).ok()),
            holder: bytes("holder").map(text),
            lost: number(bytes("lost")).unwrap_or(0),
            forgiven: number(bytes("forgiven")).unwrap_or(0),
            last_error: bytes("last_error").map(text),
            checkpoint: bytes("checkpoint"),
            kind: bytes("kind").map(text),
            headers: bytes("headers").map(text),
            max_attempts: number(bytes("max_attempts")).and_then(|cap| u32::try_from(cap).ok()),
            unique: bytes("unique").map(text),
            cancel_asked: bytes("cancel").is_some(),
        })
    }

    /// How many attempts count against its cap.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.attempts.saturating_sub(self.lost).saturating_sub(self.forgiven)
    }
}

/// RESP2 answers a flat list, RESP3 a map.
fn fields(reply: &Reply) -> HashMap<Bytes, Bytes> {
    let pair =
        |name: &Reply, value: &Reply| Some((name.as_bytes()?.clone(), value.as_bytes()?.clone()));
    match reply {
        Reply::Map(pairs) => pairs.iter().filter_map(|(name, value)| pair(name, value)).collect(),
        Reply::Array(items) => {
            items.chunks_exact(2).filter_map(|both| pair(&both[0], &both[1])).collect()
        }
        _ => HashMap::new(),
    }
}

/// Without the payload and the checkpoint, which may be secret or large.
impl fmt::Debug for JobRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobRecord")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("attempts", &self.attempts)
            .field("payload_bytes", &self.payload.len())
            .field("group", &self.group)
            .field("holder", &self.holder)
            .field("lost", &self.lost)
            .field("forgiven", &self.forgiven)
            .field("last_error", &self.last_error)
            .field("checkpoint_bytes", &self.checkpoint.as_ref().map(Bytes::len))
            .field("kind", &self.kind)
            .field("max_attempts", &self.max_attempts)
            .field("unique", &self.unique)
            .field("cancel_asked", &self.cancel_asked)
            .finish_non_exhaustive()
    }
}
