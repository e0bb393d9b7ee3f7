//! Minting: uniqueness, order, and clocks that misbehave.

use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use emq_keys::{
    BrandedId, EPOCH_MS, MAX_UNIX_MS, MINT_MANY_MAX, MintError, Minter, Namespace, NodeId,
    NodeIdError, namespace,
};
use proptest::prelude::*;

const JOB: Namespace = Namespace::JOB;
const NOW: u64 = 1_796_000_000_000;
/// Ids in one millisecond of one node.
const WINDOW: u64 = 4_096;

fn minter(node: u16) -> Minter {
    Minter::new(NodeId::new(node).expect("a node"))
}

/// The minter's state that an id was made from: its place in its node's own sequence.
fn state(id: BrandedId) -> u64 {
    ((id.unix_ms() - EPOCH_MS) << 12) | u64::from(id.sequence())
}

fn unix_ms_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("fits")
}

#[test]
fn a_thousand_mints_are_in_order_as_text() {
    let minter = minter(7);
    let before = unix_ms_now();
    let ids: Vec<BrandedId> = (0..1_000).map(|_| minter.mint(JOB).expect("mints")).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(ids.windows(2).all(|pair| pair[0].as_str() < pair[1].as_str()));
    assert!(ids.windows(2).all(|pair| pair[0].snowflake() < pair[1].snowflake()));
    assert!(ids.iter().all(|id| id.node() == 7 && id.namespace() == JOB));
    // No upper bound: a fast machine borrows, and the machine's clock may be set meanwhile.
    assert!(ids[0].unix_ms() >= before, "the first id carries the system's time");
}

#[test]
fn a_burst_on_several_threads_neither_repeats_nor_leaves_gaps() {
    const THREADS: usize = 8;
    const EACH: usize = 2_500;
    let minter = minter(1023);
    let start = Barrier::new(THREADS);
    let ids: Vec<BrandedId> = thread::scope(|scope| {
        let burst = || {
            start.wait();
            (0..EACH).map(|_| minter.mint_at(JOB, NOW).expect("mints")).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(burst)).collect();
        let bursts = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        bursts
            .inspect(|ids| assert!(ids.is_sorted_by(|a, b| a < b), "each thread sees its order"))
            .flatten()
            .collect()
    });
    let total = (THREADS * EACH) as u64;
    assert!(total > WINDOW, "the burst is larger than one sequence window");
    let states: HashSet<u64> = ids.iter().map(|&id| state(id)).collect();
    let first = (NOW - EPOCH_MS) << 12;
    let expected: HashSet<u64> = (first..first + total).collect();
    assert_eq!(states.len(), expected.len(), "no id repeats");
    assert!(states == expected, "no state is skipped");
    assert!(ids.iter().all(|id| id.node() == 1023), "no other node is borrowed from");
}

#[test]
fn blocks_and_single_mints_interleave_on_threads_without_repeats() {
    const THREADS: usize = 6;
    const ROUNDS: usize = 40;
    const BLOCK: usize = 150;
    let minter = minter(0);
    let start = Barrier::new(THREADS);
    let ids: Vec<BrandedId> = thread::scope(|scope| {
        let burst = || {
            let mut ids = Vec::new();
            start.wait();
            for _ in 0..ROUNDS {
                ids.push(minter.mint(JOB).expect("mints"));
                ids.extend(minter.mint_many(JOB, BLOCK).expect("mints"));
            }
            ids
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(burst)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(ids.len(), THREADS * ROUNDS * (BLOCK + 1));
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
}

#[test]
fn the_first_id_past_a_window_borrows_the_next_millisecond() {
    let minter = minter(5);
    for sequence in 0..WINDOW {
        let id = minter.mint_at(JOB, NOW).expect("mints");
        assert_eq!((id.unix_ms(), u64::from(id.sequence())), (NOW, sequence));
    }
    let borrowed = minter.mint_at(JOB, NOW).expect("mints");
    assert_eq!((borrowed.unix_ms(), borrowed.sequence(), borrowed.node()), (NOW + 1, 0, 5));
    assert_eq!(minter.latest_ms(), Some(NOW + 1));
    let debt = minter.mint_at(JOB, NOW + 1).expect("mints");
    assert_eq!((debt.unix_ms(), debt.sequence()), (NOW + 1, 1));
    let paid_off = minter.mint_at(JOB, NOW + 2).expect("mints");
    assert_eq!((paid_off.unix_ms(), paid_off.sequence()), (NOW + 2, 0));
}

#[test]
fn minters_on_different_nodes_never_meet() {
    let nodes = [minter(0), minter(1), minter(1023)];
    let mut seen = HashSet::new();
    for minter in &nodes {
        for _ in 0..2 * WINDOW {
            assert!(seen.insert(minter.mint_at(JOB, NOW).expect("mints").snowflake()));
        }
    }
}

#[test]
fn kinds_share_one_sequence() {
    let minter = minter(5);
    let job = minter.mint_at(JOB, NOW).expect("mints");
    let order = minter.mint_at(namespace!("ORD"), NOW).expect("mints");
    assert_eq!(order.snowflake(), job.snowflake() + 1);
}

proptest! {
    #[test]
    fn any_clock_at_all_gives_increasing_ids_or_a_typed_error(
        clock in prop::collection::vec(
            (prop_oneof![
                NOW - 50..NOW + 50,
                0..=u64::MAX,
                EPOCH_MS - 3..EPOCH_MS + 3,
                MAX_UNIX_MS - 2..=MAX_UNIX_MS + 2,
            ], 1..6_000_usize),
            1..25,
        )
    ) {
        let minter = minter(9);
        let mut last: u64 = 0;
        for (now_ms, count) in clock {
            let first = last + 1;
            let minted = minter.mint_many_at(JOB, count, now_ms);
            let expected = if now_ms > MAX_UNIX_MS {
                Err(MintError::ClockPastRange { unix_ms: now_ms })
            } else if now_ms < EPOCH_MS && last == 0 {
                Err(MintError::ClockBeforeEpoch { unix_ms: now_ms })
            } else {
                let first = first.max(now_ms.saturating_sub(EPOCH_MS) << 12);
                let end = first + count as u64;
                if end > 1 << 53 { Err(MintError::Exhausted) } else { Ok(first..end) }
            };
            match (minted, expected) {
                (Ok(ids), Ok(states)) => {
                    last = states.end - 1;
                    prop_assert!(ids.map(state).eq(states));
                }
                (minted, expected) => prop_assert_eq!(minted.err(), expected.err()),
            }
            prop_assert_eq!(minter.latest_ms().is_some(), last != 0);
        }
    }
}

#[test]
fn a_clock_that_jumps_back_is_not_seen_in_the_ids() {
    let minter = minter(3);
    let mut last = minter.mint_at(JOB, NOW).expect("mints");
    for back in [1, 1_000, 3_600_000, NOW - EPOCH_MS, NOW - 1, NOW] {
        let next = minter.mint_at(JOB, NOW - back).expect("a clock behind is no error");
        assert_eq!(next.snowflake(), last.snowflake() + 1);
        last = next;
    }
}

#[test]
fn a_fresh_minter_refuses_a_clock_before_the_epoch() {
    let minter = minter(3);
    for unix_ms in [0, EPOCH_MS - 1] {
        assert_eq!(minter.mint_at(JOB, unix_ms), Err(MintError::ClockBeforeEpoch { unix_ms }));
    }
    assert_eq!(minter.latest_ms(), None);
    let first = minter.mint_at(JOB, EPOCH_MS).expect("the epoch itself is in range");
    assert_eq!(first.unix_ms(), EPOCH_MS);
}

#[test]
fn a_clock_past_the_range_is_refused_and_changes_nothing() {
    let minter = minter(3);
    let before = minter.mint_at(JOB, NOW).expect("mints");
    for unix_ms in [MAX_UNIX_MS + 1, u64::MAX] {
        assert_eq!(minter.mint_at(JOB, unix_ms), Err(MintError::ClockPastRange { unix_ms }));
    }
    let after = minter.mint_at(JOB, NOW).expect("mints");
    assert_eq!(after.snowflake(), before.snowflake() + 1);
}

#[test]
fn the_last_millisecond_ends_in_a_typed_error() {
    let minter = minter(1023);
    let too_large = minter.mint_many_at(JOB, WINDOW as usize + 1, MAX_UNIX_MS);
    assert_eq!(too_large.err(), Some(MintError::Exhausted));
    let ids = minter.mint_many_at(JOB, WINDOW as usize, MAX_UNIX_MS).expect("just fits");
    let last = ids.last().expect("not empty");
    assert_eq!(last.snowflake(), (1 << 63) - 1);
    assert_eq!(minter.mint_at(JOB, MAX_UNIX_MS), Err(MintError::Exhausted));
    assert_eq!(minter.mint_at(JOB, NOW), Err(MintError::Exhausted));
}

#[test]
fn a_block_is_bounded_contiguous_and_exact() {
    let minter = minter(2);
    let count = MINT_MANY_MAX + 1;
    assert_eq!(
        minter.mint_many_at(JOB, count, NOW).err(),
        Some(MintError::TooMany { count }),
        "a block has a bound"
    );
    let none = minter.mint_many_at(JOB, 0, NOW).expect("an empty block is fine");
    assert_eq!(none.len(), 0);
    assert_eq!(minter.latest_ms(), None, "and takes nothing");
    let mut block = minter.mint_many_at(JOB, 5_000, NOW).expect("mints");
    assert_eq!(block.len(), 5_000);
    let first = block.next().expect("not empty");
    assert_eq!((first.unix_ms(), first.sequence(), block.len()), (NOW, 0, 4_999));
    let after = minter.mint_at(JOB, NOW).expect("mints");
    let last = block.last().expect("not empty");
    assert_eq!(state(last) + 1, state(after));
}

#[test]
fn nodes_are_bounded() {
    assert_eq!(NodeId::new(0).map(NodeId::number), Ok(0));
    assert_eq!("1023".parse(), Ok(NodeId::MAX));
    assert_eq!(NodeId::try_from(1024), Err(NodeIdError::Range(1024)));
    for text in ["", "-1", "7 ", "0x7", "65536", "seven"] {
        assert_eq!(text.parse::<NodeId>(), Err(NodeIdError::Text), "{text:?}");
    }
    assert_eq!("1024".parse::<NodeId>(), Err(NodeIdError::Range(1024)));
}
