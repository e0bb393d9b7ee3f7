//! The payload that all sides carry.

/// Bytes of every job's payload.
pub const PAYLOAD_BYTES: usize = 100;

/// The payload of job `i`: JSON, filled up to [`PAYLOAD_BYTES`].
#[must_use]
pub fn payload(i: usize) -> String {
    let head = format!("{{\"id\":{i},\"data\":\"");
    let fill = PAYLOAD_BYTES.saturating_sub(head.len() + 2);
    format!("{head}{}\"}}", "x".repeat(fill))
}

/// Whose payload it is; `None` when [`payload`] didn't make it.
#[must_use]
pub fn id_of(payload: &[u8]) -> Option<usize> {
    let digits = payload.strip_prefix(b"{\"id\":")?;
    let end = digits.iter().position(|byte| *byte == b',')?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_100_bytes_of_json_and_names_its_job() {
        for i in [0, 7, 123_456, 99_999_999] {
            let made = payload(i);
            assert_eq!(made.len(), PAYLOAD_BYTES);
            assert_eq!(id_of(made.as_bytes()), Some(i));
            let json: serde_json::Value = serde_json::from_str(&made).unwrap();
            assert_eq!(json["id"], i);
        }
        assert_eq!(id_of(b"{\"data\":1}"), None);
    }
}
