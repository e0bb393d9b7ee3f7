//! The server's clock, read.

use emq_wire::Reply;

/// Reads `TIME`, in milliseconds.
pub(crate) fn server_ms(reply: &Reply) -> Option<u64> {
    let [seconds, micros] = reply.as_array()? else { return None };
    let number = |reply: &Reply| std::str::from_utf8(reply.as_bytes()?).ok()?.parse::<u64>().ok();
    number(seconds)?.checked_mul(1000)?.checked_add(number(micros)? / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_in_milliseconds() {
        let bulk = |text: &'static str| Reply::Bulk(text.into());
        let time = Reply::Array(vec![bulk("1000"), bulk("500900")]);
        assert_eq!(server_ms(&time), Some(1_000_500));
        for wrong in [Reply::Nil, Reply::Array(vec![bulk("1")]), Reply::Array(vec![bulk("x"); 2])] {
            assert_eq!(server_ms(&wrong), None);
        }
    }
}
