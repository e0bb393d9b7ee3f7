//! Reading replies: each answers `None` for a shape that isn't the one asked for.

use emq_keys::BrandedId;
use emq_wire::Reply;

/// A whole number that is not negative.
pub(crate) fn count(reply: &Reply) -> Option<u64> {
    reply.as_int().and_then(|n| u64::try_from(n).ok())
}

/// A well-formed id.
pub(crate) fn id(reply: &Reply) -> Option<BrandedId> {
    reply.as_bytes().and_then(|bytes| BrandedId::parse(bytes).ok())
}

/// What a reply looks like, without its content, which may be a payload.
pub(crate) fn describe(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "a null".to_owned(),
        Reply::Int(n) => format!("the integer {n}"),
        Reply::Simple(bytes) => format!("a status of {} bytes", bytes.len()),
        Reply::Bulk(bytes) => format!("a string of {} bytes", bytes.len()),
        Reply::Array(items) => {
            let kinds: Vec<&str> = items.iter().take(8).map(kind).collect();
            let more = if items.len() > 8 { ", ..." } else { "" };
            format!("an array of {} ({}{more})", items.len(), kinds.join(", "))
        }
        other => format!("a {}", kind(other)),
    }
}

fn kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Nil => "null",
        Reply::Int(_) => "integer",
        Reply::Simple(_) => "status",
        Reply::Bulk(_) => "string",
        Reply::Array(_) => "array",
        Reply::Error(_) => "error",
        Reply::Double(_) => "double",
        Reply::Bool(_) => "boolean",
        Reply::BigNumber(_) => "big number",
        Reply::Verbatim { .. } => "verbatim text",
        Reply::Map(_) => "map",
        Reply::Set(_) => "set",
        Reply::Push(_) => "push",
    }
}
