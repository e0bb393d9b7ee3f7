//! Ways of handing bytes to a decoder.

use bytes::BytesMut;
use emq_wire::{Decoder, Limits, ProtocolError, Reply};

/// What came out of a stream: replies, then perhaps an error, and the bytes left over.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) replies: Vec<Reply>,
    pub(crate) error: Option<ProtocolError>,
    pub(crate) left: usize,
}

/// Decodes a stream that arrives in `pieces`. The replies stay alive meanwhile, so slices of the
/// buffer are shared while it grows.
pub(crate) fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Outcome {
    let mut decoder = Decoder::new(limits);
    let mut buf = BytesMut::new();
    let mut replies = Vec::new();
    for piece in pieces {
        buf.reserve(piece.len());
        buf.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buf) {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.decode(&mut buf), Err(error.clone()), "an error stays");
                    return Outcome { replies, error: Some(error), left: 0 };
                }
            }
        }
    }
    Outcome { replies, error: None, left: buf.len() }
}

pub(crate) fn whole(bytes: &[u8]) -> Outcome {
    feed([bytes], Limits::default())
}

/// The only reply of a stream that holds exactly one.
pub(crate) fn one(bytes: &[u8]) -> Reply {
    let mut outcome = whole(bytes);
    assert_eq!((outcome.replies.len(), &outcome.error, outcome.left), (1, &None, 0), "{bytes:?}");
    outcome.replies.remove(0)
}
