//! Members of sorted sets with scores that are times.

use emq_keys::BrandedId;
use emq_wire::Reply;

use super::misread;
use crate::error::Error;

/// Jobs with their scores, which are Unix milliseconds. RESP2 answers a flat list with the scores
/// as text, RESP3 pairs with the scores as numbers.
pub(super) fn scored(reply: &Reply) -> Result<Vec<(BrandedId, u64)>, Error> {
    members("ZRANGE", reply)?;
    let items = reply.as_array().unwrap_or_default();
    let pairs: Vec<(&Reply, &Reply)> = match items.first() {
        Some(Reply::Array(_)) => items
            .iter()
            .filter_map(|pair| match pair.as_array()? {
                [member, score] => Some((member, score)),
                _ => None,
            })
            .collect(),
        _ => items.chunks_exact(2).map(|both| (&both[0], &both[1])).collect(),
    };
    let pair = |(member, score): (&Reply, &Reply)| {
        let id = BrandedId::parse(member.as_bytes()?).ok()?;
        Some((id, score_ms(score)?))
    };
    Ok(pairs.into_iter().filter_map(pair).collect())
}

/// A score in whole milliseconds, of which a double holds more than enough; one that a hand made
/// negative counts as 0.
pub(super) fn score_ms(score: &Reply) -> Option<u64> {
    match score {
        Reply::Double(score) => Some(*score as u64),
        other => {
            let text = std::str::from_utf8(other.as_bytes()?).ok()?;
            text.parse::<f64>().ok().map(|score| score as u64)
        }
    }
}

/// Refuses what is no list.
pub(super) fn members(step: &'static str, reply: &Reply) -> Result<(), Error> {
    match reply {
        Reply::Array(_) => Ok(()),
        other => Err(misread(step, other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn bulk(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn scores_are_read_in_both_protocols() {
        let id: BrandedId = "JOB0NgWEfAEJfs".parse().unwrap();
        let flat = Reply::Array(vec![bulk("JOB0NgWEfAEJfs"), bulk("1764489600123")]);
        let score = Reply::Double(1_764_489_600_123.0);
        let pairs = Reply::Array(vec![Reply::Array(vec![bulk("JOB0NgWEfAEJfs"), score])]);
        for reply in [flat, pairs] {
            assert_eq!(scored(&reply).unwrap(), [(id, 1_764_489_600_123)]);
        }
        assert_eq!(scored(&Reply::Array(Vec::new())).unwrap(), []);
        assert!(scored(&Reply::Int(1)).is_err());
    }
}
