//! What a checkup reads by plain commands.

use bytes::Bytes;
use emq_wire::Reply;

use crate::name::ScriptName;
use crate::read;
use crate::refusal::CallError;

/// A page of a scan.
pub(super) struct Page {
    /// Where the next one starts; `None` at the end.
    pub(super) cursor: Option<Bytes>,
    pub(super) items: Vec<Bytes>,
}

impl Page {
    pub(super) fn read(reply: Reply) -> Result<Page, CallError> {
        let reply = checked(reply)?;
        let Some([Reply::Bulk(cursor), items]) = reply.as_array() else {
            return Err(shape(&reply));
        };
        let cursor = Some(cursor.clone()).filter(|cursor| cursor != "0");
        Ok(Page { cursor, items: strings(items)? })
    }
}

/// The server's error as a call's.
pub(super) fn checked(reply: Reply) -> Result<Reply, CallError> {
    match reply {
        Reply::Error(error) => Err(CallError::from_server(ScriptName::Doctor, error)),
        reply => Ok(reply),
    }
}

pub(super) fn strings(reply: &Reply) -> Result<Vec<Bytes>, CallError> {
    let strings = reply
        .as_array()
        .and_then(|items| items.iter().map(|item| item.as_bytes().cloned()).collect());
    strings.ok_or_else(|| shape(reply))
}

fn shape(reply: &Reply) -> CallError {
    CallError::Shape { script: ScriptName::Doctor, found: read::describe(reply) }
}

/// The subjects that a call left; one that examined none would go on for ever.
pub(super) fn rest<T>(mut subjects: Vec<T>, done: usize) -> Result<Option<Vec<T>>, CallError> {
    if done == 0 || done > subjects.len() {
        let found = format!("{done} of {} subjects", subjects.len());
        return Err(CallError::Shape { script: ScriptName::Doctor, found });
    }
    let rest = subjects.split_off(done);
    Ok(Some(rest).filter(|rest| !rest.is_empty()))
}
