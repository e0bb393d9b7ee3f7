//! Memory follows what has arrived, never what was announced. One test alone in its process: the
//! peak of the allocator is everybody's.

use bytes::BytesMut;
use emq_wire::{Decoder, Limits};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes allocated at the peak of decoding, beyond what there was before.
fn peak_of(bytes: &[u8]) -> usize {
    let mut buf = BytesMut::from(bytes);
    let mut decoder = Decoder::new(Limits { max_elements: usize::MAX, ..Limits::default() });
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let outcome = decoder.decode(&mut buf);
    let peak = MEMORY.peak_usage();
    drop((outcome, decoder));
    peak.saturating_sub(before)
}

#[test]
fn announcements_allocate_almost_nothing() {
    // Slots for 2,048 values of 48 bytes, and the levels themselves.
    const ANNOUNCED: usize = 128 * 1024;
    let cases = [
        ("one huge string", "$536870912\r\n".to_owned()),
        ("one huge error", "!536870912\r\n".to_owned()),
        ("one huge list", "*8388608\r\n".to_owned()),
        ("a list beyond memory", "*1152921504606846976\r\n".to_owned()),
        ("a map beyond memory", "%1152921504606846976\r\n".to_owned()),
        ("huge lists in huge lists", "*100000000\r\n".repeat(64)),
        ("huge maps in huge maps", "%100000000\r\n".repeat(64)),
        ("huge sets in huge sets", "~100000000\r\n".repeat(64)),
        ("huge attributes in huge attributes", "|100000000\r\n".repeat(64)),
        ("ten thousand levels", "*1000000\r\n".repeat(10_000)),
        ("huge lists, one beside the other", "*1000000\r\n*1\r\n*1\r\n:1\r\n".repeat(16)),
    ];
    for (name, bytes) in cases {
        let peak = peak_of(bytes.as_bytes());
        assert!(peak <= ANNOUNCED, "{name}: {peak} bytes for {} that came", bytes.len());
    }

    // What did arrive costs in proportion: a slot for three bytes, doubled by growth, at worst.
    let count = 100_000;
    let nulls = format!("*1000000\r\n{}", "_\r\n".repeat(count));
    let peak = peak_of(nulls.as_bytes());
    assert!(peak >= count * 48, "the allocator is being watched: {peak}");
    assert!(peak <= count * 48 * 4, "{peak} bytes for {} that came", nulls.len());

    // Attributes are forgotten as they come.
    let remarks = format!("|1000000\r\n{}", ":1\r\n+a short remark\r\n".repeat(50_000));
    let peak = peak_of(remarks.as_bytes());
    assert!(peak <= ANNOUNCED, "{peak} bytes for remarks that are dropped");
}
