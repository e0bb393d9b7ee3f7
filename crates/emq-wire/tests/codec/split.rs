//! However a stream is cut, the same replies come out.

use emq_wire::Limits;
use proptest::prelude::*;

use crate::feed::{feed, whole};
use crate::frames::table;
use crate::tree::{Dialect, encode, noise, reply3};

#[test]
fn every_frame_cut_at_every_byte() {
    for (bytes, reply) in table() {
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            let outcome = feed([head, tail], Limits::default());
            assert_eq!((outcome.error, outcome.left), (None, 0), "cut at {cut}: {bytes:?}");
            assert_eq!(outcome.replies, std::slice::from_ref(&reply), "cut at {cut}: {bytes:?}");
            if cut < bytes.len() {
                assert_eq!(whole(head).replies, [], "{cut} bytes are no reply: {bytes:?}");
            }
        }
        assert_eq!(feed(bytes.chunks(1), Limits::default()).replies, [reply], "{bytes:?}");
    }
}

#[test]
fn a_stream_of_all_types_cut_at_every_byte() {
    let bytes: Vec<u8> = table().iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
    let expected = whole(&bytes);
    for cut in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(cut);
        assert_eq!(feed([head, tail], Limits::default()), expected, "cut at {cut}");
    }
    for size in 1..64 {
        assert_eq!(feed(bytes.chunks(size), Limits::default()), expected, "pieces of {size}");
    }
}

/// What is remembered of one frame must not leak into the next.
#[test]
fn every_pair_of_frames_cut_at_every_byte() {
    for (first, one) in table() {
        for (second, two) in table() {
            let bytes = [first, second].concat();
            for cut in 1..bytes.len() {
                let (head, tail) = bytes.split_at(cut);
                let outcome = feed([head, tail], Limits::default());
                assert_eq!(outcome.replies, [one.clone(), two.clone()], "cut at {cut}: {bytes:?}");
            }
        }
    }
}

/// Small bounds, so that random streams meet them.
fn tight() -> Limits {
    Limits {
        max_bulk_bytes: 64,
        max_reply_bytes: 100,
        max_depth: 3,
        max_elements: 12,
        max_line_bytes: 16,
    }
}

/// Cuts `bytes` at each of `cuts`, taken modulo its length.
fn cut_at<'a>(bytes: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn trees_come_back_whole_cut_or_annotated(
        replies in prop::collection::vec(reply3(), 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        for dialect in [Dialect::Resp2, Dialect::Resp3, Dialect::Annotated] {
            let mut bytes = Vec::new();
            replies.iter().for_each(|reply| encode(reply, dialect, &mut bytes));
            let pieces = cut_at(&bytes, &cuts);
            for outcome in [whole(&bytes), feed(pieces, Limits::default()), feed(bytes.chunks(1), Limits::default())] {
                prop_assert_eq!(&outcome.replies, &replies);
                prop_assert_eq!((outcome.error, outcome.left), (None, 0));
            }
        }
    }

    #[test]
    fn noise_means_the_same_however_it_is_cut(
        bytes in noise(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        for limits in [Limits::default(), tight()] {
            let expected = feed([&bytes[..]], limits);
            prop_assert_eq!(&feed(cut_at(&bytes, &cuts), limits), &expected);
            prop_assert_eq!(&feed(bytes.chunks(1), limits), &expected);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let expected = feed([&bytes[..]], tight());
        prop_assert_eq!(feed(bytes.chunks(1), tight()), expected);
    }
}
