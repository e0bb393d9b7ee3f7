//! A job as it lies in the outbox.

use bytes::Bytes;
use emq_core::{Due, EnqueueOptions, NewJob};
use emq_keys::{BrandedId, IdError, Namespace, QueueName};

use super::error::OutboxError;

/// The latest due time that the bus takes, unix milliseconds.
const DUE_MAX_MS: u64 = 1 << 42;
/// The greatest cap of attempts that the bus takes.
const ATTEMPTS_MAX: u32 = 1 << 31;

/// Options as columns keep them.
pub(super) struct Columns<'a> {
    pub(super) queue: &'a str,
    pub(super) job: &'a NewJob,
    pub(super) kind: Option<&'a str>,
    pub(super) headers: Option<&'a str>,
    pub(super) max_attempts: Option<i64>,
    pub(super) unique: Option<&'a str>,
    /// A time, unix milliseconds.
    pub(super) due_ms: Option<i64>,
    /// A delay from the insert, by the database's clock.
    pub(super) delay_ms: Option<i64>,
}

/// Passes the gates before anything is written: a statement that fails would end the caller's
/// transaction, and a row that the bus refuses would only be found by the relay.
pub(super) fn gated<'a>(
    queue: &'a QueueName,
    job: &'a NewJob,
    payload_cap: usize,
) -> Result<Columns<'a>, OutboxError> {
    if job.id().namespace() != Namespace::JOB {
        return Err(OutboxError::Kind { id: job.id() });
    }
    let bytes = job.payload().len();
    if bytes > payload_cap {
        return Err(OutboxError::PayloadTooLarge { bytes, limit: payload_cap });
    }
    let said = job.options().said();
    let texts = [("kind", said.kind), ("headers", said.headers), ("unique", said.unique)];
    for (what, text) in texts {
        // PostgreSQL's text can't hold a NUL, and the bus takes no empty field.
        if text.is_some_and(|text| text.is_empty() || text.contains('\0')) {
            return Err(OutboxError::Setting { what, range: "a text of one byte or more, no NUL" });
        }
    }
    if said.max_attempts.is_some_and(|cap| cap == 0 || cap > ATTEMPTS_MAX) {
        return Err(OutboxError::Setting { what: "max_attempts", range: "from 1 to 2^31" });
    }
    let (due_ms, delay_ms) = match said.due {
        None => (None, None),
        Some(Due::At { unix_ms }) => (Some(moment(u128::from(unix_ms))?), None),
        Some(Due::In(delay)) => (None, Some(moment(delay.as_nanos().div_ceil(1_000_000))?)),
    };
    Ok(Columns {
        queue: queue.as_str(),
        job,
        kind: said.kind,
        headers: said.headers,
        max_attempts: said.max_attempts.map(i64::from),
        unique: said.unique,
        due_ms,
        delay_ms,
    })
}

fn moment(ms: u128) -> Result<i64, OutboxError> {
    i64::try_from(ms)
        .ok()
        .filter(|ms| ms.unsigned_abs() < DUE_MAX_MS / 2)
        .ok_or(OutboxError::Setting { what: "the due time", range: "before the year 2039" })
}

/// A row that the relay took.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) queue: String,
    pub(super) job: NewJob,
}

/// The columns of a row, as either database answers them.
pub(super) struct Read {
    pub(super) queue: String,
    pub(super) id: String,
    pub(super) payload: Vec<u8>,
    pub(super) lane: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) headers: Option<String>,
    pub(super) max_attempts: Option<i64>,
    pub(super) unique: Option<String>,
    pub(super) due_ms: Option<i64>,
}

impl Read {
    /// The job again. Only a hand could have put there what is none.
    pub(super) fn into_row(self) -> Result<Row, IdError> {
        let id = |text: &str| BrandedId::parse(text.as_bytes());
        let mut options = EnqueueOptions::new();
        if let Some(kind) = self.kind {
            options = options.kind(kind);
        }
        if let Some(headers) = self.headers {
            options = options.headers(headers);
        }
        if let Some(cap) = self.max_attempts.and_then(|cap| u32::try_from(cap).ok()) {
            options = options.max_attempts(cap);
        }
        if let Some(unique) = self.unique {
            options = options.unique(unique);
        }
        if let Some(due) = self.due_ms.and_then(|ms| u64::try_from(ms).ok()) {
            options = options.at(std::time::UNIX_EPOCH + std::time::Duration::from_millis(due));
        }
        let mut job = NewJob::new(id(&self.id)?, Bytes::from(self.payload)).with(options);
        if let Some(lane) = &self.lane {
            job = job.lane(id(lane)?);
        }
        Ok(Row { queue: self.queue, job })
    }
}
