//! The key grammar: a literal table, its inverse, and the slots.

use std::error::Error;

use emq_keys::{
    BrandedId, Gate, Key, KeyError, QueueFact, QueueKeys, QueueName, QueueNameError, RESERVE_LOCKS,
    RESERVE_NODE_OWNERS, RESERVE_NODES, RESERVE_VERSION, ReserveFact, SLOT_COUNT, Structure, crc16,
    slot,
};
use proptest::prelude::*;

fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("a queue's name")
}

fn keys(name: &str) -> QueueKeys {
    QueueKeys::new(queue(name))
}

fn id(text: &str) -> BrandedId {
    text.parse().expect("an id")
}

#[test]
fn every_key_of_a_queue_byte_for_byte() {
    let keys = keys("orders");
    let job = id("JOB0NgWEfAEJfs");
    let tenant = id("TEN3XSF0FpGe6H");
    let table = [
        (keys.pending().to_owned(), "emq:{orders}:pending", "zset"),
        (keys.active().to_owned(), "emq:{orders}:active", "zset"),
        (keys.schedule().to_owned(), "emq:{orders}:schedule", "zset"),
        (keys.dead().to_owned(), "emq:{orders}:dead", "zset"),
        (keys.job(&job), "emq:{orders}:job:JOB0NgWEfAEJfs", "hash"),
        (keys.lane(&tenant), "emq:{orders}:g:TEN3XSF0FpGe6H:pending", "zset"),
        (keys.ring().to_owned(), "emq:{orders}:ring", "list"),
        (keys.paused().to_owned(), "emq:{orders}:paused", "set"),
        (keys.glimit().to_owned(), "emq:{orders}:glimit", "hash"),
        (keys.gactive().to_owned(), "emq:{orders}:gactive", "hash"),
        (keys.wake().to_owned(), "emq:{orders}:wake", "list"),
        (keys.gweight().to_owned(), "emq:{orders}:gweight", "hash"),
        (keys.unique().to_owned(), "emq:{orders}:unique", "hash"),
        (keys.meta().to_owned(), "emq:{orders}:meta", "hash"),
        (keys.timetable().to_owned(), "emq:{orders}:timetable", "hash"),
    ];
    assert_eq!(table.len(), QueueFact::ALL.len() + 2, "every fact, a row and a lane");
    for (built, literal, structure) in table {
        assert_eq!(built, literal);
        assert!(built.starts_with(keys.base()));
        assert_eq!(slot(built.as_bytes()), 105);
        let key = Key::parse(literal.as_bytes()).expect("parses");
        assert_eq!(key.to_string(), literal);
        assert_eq!(key.queue(), Some(keys.queue()));
        assert_eq!(key.structure().map(Structure::as_str), Some(structure));
    }
    assert_eq!(keys.base(), "emq:{orders}:");
    assert_eq!(keys.slot(), 105);
}

#[test]
fn seventeen_bytes_of_grammar_then_fourteen_of_identity() {
    let key = keys("orders").job(&id("ORD0NgWEfAEJfs"));
    assert_eq!(key.len(), 31);
    assert_eq!(&key[..17], "emq:{orders}:job:");
    assert_eq!(&key[17..], "ORD0NgWEfAEJfs");
}

#[test]
fn the_reserve_byte_for_byte() {
    let table = [
        (RESERVE_VERSION, "{emq}:version", ReserveFact::Version, Some(Structure::String)),
        (RESERVE_NODES, "{emq}:nodes", ReserveFact::Nodes, Some(Structure::SortedSet)),
        (RESERVE_NODE_OWNERS, "{emq}:nodes:owners", ReserveFact::NodeOwners, Some(Structure::Hash)),
        (RESERVE_LOCKS, "{emq}:locks", ReserveFact::Locks, None),
    ];
    assert_eq!(table.len(), ReserveFact::ALL.len());
    for (built, literal, fact, structure) in table {
        assert_eq!(built, literal);
        let key = Key::parse(literal.as_bytes()).expect("parses");
        assert_eq!(key, Key::Reserve(fact));
        assert_eq!(key.to_string(), literal);
        assert_eq!(key.queue(), None);
        assert_eq!(key.structure(), structure);
        assert_eq!(key.slot(), 9051);
    }
}

#[test]
fn raw_bytes_pass_the_gates_before_a_key_is_built() {
    let keys = keys("orders");
    assert_eq!(
        keys.job_from_bytes(b"JOB0NgWEfAEJfs").as_deref(),
        Ok("emq:{orders}:job:JOB0NgWEfAEJfs")
    );
    assert_eq!(
        keys.lane_from_bytes(b"TEN3XSF0FpGe6H").as_deref(),
        Ok("emq:{orders}:g:TEN3XSF0FpGe6H:pending")
    );
    let refused: [(&[u8], Gate); 5] = [
        (b"12345678901234", Gate::Namespace),
        (b"not-a-valid-id", Gate::Namespace),
        (b"JOB}:x{0000000", Gate::Charset),
        (b"JOBzzzzzzzzzzz", Gate::Range),
        (b"JOB0NgWEfAEJfs\r\n", Gate::Length),
    ];
    for (bytes, gate) in refused {
        assert_eq!(keys.job_from_bytes(bytes).map_err(|e| e.gate()), Err(gate));
        assert_eq!(keys.lane_from_bytes(bytes).map_err(|e| e.gate()), Err(gate));
    }
}

#[test]
fn names_of_queues() {
    for good in ["a", "EMQ", "emq2", ".", "-", "_", "a.b_c-D9", &"q".repeat(128)] {
        assert_eq!(QueueName::new(good).map(|name| name.to_string()), Ok(good.to_owned()));
    }
    let bad = [
        ("", QueueNameError::Length { bytes: 0 }),
        (&"q".repeat(129), QueueNameError::Length { bytes: 129 }),
        ("emq", QueueNameError::Reserved),
        ("a b", QueueNameError::Byte { at: 1, byte: b' ' }),
        ("a}b", QueueNameError::Byte { at: 1, byte: b'}' }),
        ("{ab", QueueNameError::Byte { at: 0, byte: b'{' }),
        ("ab:", QueueNameError::Byte { at: 2, byte: b':' }),
        ("aé", QueueNameError::Byte { at: 1, byte: 0xC3 }),
        ("ab\n", QueueNameError::Byte { at: 2, byte: b'\n' }),
        ("ab\0", QueueNameError::Byte { at: 2, byte: 0 }),
    ];
    for (name, error) in bad {
        assert_eq!(QueueName::new(name), Err(error));
        assert_eq!(QueueName::parse(name.as_bytes()), Err(error));
        assert_eq!(name.parse::<QueueName>(), Err(error));
    }
}

#[test]
fn what_is_not_of_the_grammar_is_refused_with_its_reason() {
    for bytes in ["", "emq", "emq:", "emq:{", "emq:{orders", "emq:{orders}", "orders:pending"] {
        assert_eq!(Key::parse(bytes.as_bytes()), Err(KeyError::Family), "{bytes}");
    }
    for bytes in ["EMQ:{orders}:pending", " emq:{orders}:pending", "emq:orders:pending", "{emq}"] {
        assert_eq!(Key::parse(bytes.as_bytes()), Err(KeyError::Family), "{bytes}");
    }
    let queue_error = |bytes: &[u8]| match Key::parse(bytes) {
        Err(KeyError::Queue(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(queue_error(b"emq:{}:pending"), QueueNameError::Length { bytes: 0 });
    assert_eq!(queue_error(b"emq:{emq}:pending"), QueueNameError::Reserved);
    assert_eq!(queue_error(b"emq:{{a}:pending"), QueueNameError::Byte { at: 0, byte: b'{' });

    for tail in ["", "Pending", "pending ", "pending:", "jobs", "job", "g", "g:", "g:x", "lock"] {
        let error = Key::parse(format!("emq:{{orders}}:{tail}").as_bytes()).expect_err("unknown");
        let expected =
            KeyError::UnknownType { queue: queue("orders"), type_name: tail.as_bytes().into() };
        assert_eq!(error, expected);
    }
    for tail in ["job:", "job:12345678901234", "g::pending", "g:TEN3XSF0FpGe6:pending"] {
        let error = Key::parse(format!("emq:{{orders}}:{tail}").as_bytes()).expect_err("no id");
        assert!(matches!(error, KeyError::Id(_)), "{tail}");
        assert!(error.source().is_some(), "the cause is the id's own error");
    }
    for fact in ["", "versions", "node", "nodes:", "locks:a"] {
        let error = Key::parse(format!("{{emq}}:{fact}").as_bytes()).expect_err("unknown");
        assert_eq!(error, KeyError::UnknownFact { fact: fact.as_bytes().into() });
    }
}

fn any_queue() -> impl Strategy<Value = QueueName> {
    prop_oneof!["[A-Za-z0-9._-]{1,12}", "[A-Za-z0-9._-]{120,128}"]
        .prop_filter_map("the reserve's own name", |name| QueueName::new(name).ok())
}

fn any_id() -> impl Strategy<Value = BrandedId> {
    "[A-Z]{3}[0-9][0-9A-Za-z]{10}".prop_map(|text| id(&text))
}

fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![
        (any_queue(), prop::sample::select(&QueueFact::ALL[..]))
            .prop_map(|(queue, fact)| Key::Fact { queue, fact }),
        (any_queue(), any_id()).prop_map(|(queue, id)| Key::Job { queue, id }),
        (any_queue(), any_id()).prop_map(|(queue, group)| Key::Lane { queue, group }),
        prop::sample::select(&ReserveFact::ALL[..]).prop_map(Key::Reserve),
    ]
}

/// Bytes near the grammar: a true key with a few bytes struck, added or changed.
fn near_a_key() -> impl Strategy<Value = Vec<u8>> {
    let edit = (
        any::<prop::sample::Index>(),
        0..3_u8,
        prop_oneof![any::<u8>(), prop::sample::select(&b"{}:emqjobg0A"[..],)],
    );
    (any_key(), prop::collection::vec(edit, 0..4)).prop_map(|(key, edits)| {
        let mut bytes = key.to_string().into_bytes();
        for (at, kind, byte) in edits {
            let at = at.index(bytes.len() + 1);
            match kind {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] = byte,
                _ => bytes.push(byte),
            }
        }
        bytes
    })
}

/// CRC16-XMODEM bit by bit, without a table.
fn crc16_by_bits(bytes: &[u8]) -> u16 {
    let mut crc: u32 = 0;
    for byte in bytes {
        for bit in (0..8).rev() {
            let fed = (u32::from(*byte) >> bit) & 1;
            let out = (crc >> 15) & 1;
            crc = (crc << 1) & 0xFFFF;
            if fed != out {
                crc ^= 0x1021;
            }
        }
    }
    u16::try_from(crc).expect("16 bits")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn parsing_inverts_building(key in any_key()) {
        let text = key.to_string();
        prop_assert_eq!(Key::parse(text.as_bytes()), Ok(key.clone()));
        prop_assert_eq!(key.slot(), slot(text.as_bytes()));
        let built = key.queue().map(|queue| {
            let keys = QueueKeys::new(queue.clone());
            match &key {
                Key::Fact { fact, .. } => keys.fact(*fact).to_owned(),
                Key::Job { id, .. } => keys.job(id),
                Key::Lane { group, .. } => keys.lane(group),
                Key::Reserve(_) => unreachable!("the reserve has no queue"),
            }
        });
        prop_assert_eq!(built.unwrap_or_else(|| text.clone()), text);
    }

    #[test]
    fn what_parses_is_written_with_the_same_bytes(bytes in near_a_key()) {
        if let Ok(key) = Key::parse(&bytes) {
            prop_assert_eq!(key.to_string().into_bytes(), bytes);
        }
    }

    #[test]
    fn parsing_a_key_is_total(
        head in prop::sample::select(vec!["", "emq:{", "emq:{q}:", "emq:{q}:job:", "{emq}:"]),
        tail in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let bytes = [head.as_bytes(), &tail].concat();
        let parsed = Key::parse(&bytes).map(|key| key.to_string().into_bytes());
        prop_assert!(parsed.is_err() || parsed == Ok(bytes));
    }

    #[test]
    fn every_key_of_a_queue_has_its_slot(queue in any_queue(), id in any_id()) {
        let keys = QueueKeys::new(queue.clone());
        let expected = crc16_by_bits(queue.as_bytes()) % SLOT_COUNT;
        prop_assert_eq!(keys.slot(), expected);
        prop_assert_eq!(slot(keys.job(&id).as_bytes()), expected);
        prop_assert_eq!(slot(keys.lane(&id).as_bytes()), expected);
        for fact in QueueFact::ALL {
            prop_assert_eq!(slot(keys.fact(fact).as_bytes()), expected);
        }
    }

    #[test]
    fn the_checksum_agrees_with_its_definition(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(crc16(&bytes), crc16_by_bits(&bytes));
        prop_assert!(slot(&bytes) < SLOT_COUNT);
    }
}

#[test]
fn the_hashtag_is_the_servers() {
    let table: [(&[u8], &[u8]); 14] = [
        (b"", b""),
        (b"plain", b"plain"),
        (b"a{tag}b", b"tag"),
        (b"{tag}", b"tag"),
        (b"a{one}{two}", b"one"),
        (b"a{{tag}}b", b"{tag"),
        (b"a{}b", b"a{}b"),
        (b"a{}{tag}", b"a{}{tag}"),
        (b"a{b", b"a{b"),
        (b"a}b", b"a}b"),
        (b"}a{tag}", b"tag"),
        (b"a}b{c", b"a}b{c"),
        (b"{", b"{"),
        (b"\0{\0\xff}\r\n", b"\0\xff"),
    ];
    for (key, hashed) in table {
        let expected = crc16_by_bits(hashed) % SLOT_COUNT;
        assert_eq!(slot(key), expected, "{}", key.escape_ascii());
    }
}
