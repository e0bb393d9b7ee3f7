//! The vectors that any implementation reproduces, read from their files.

use emq_keys::{
    BrandedId, EPOCH_MS, MAX_PAYLOAD, MAX_SNOWFLAKE, Namespace, QueueKeys, QueueName, crc16,
    hash32, slot,
};
use serde_json::Value;

fn identity() -> Value {
    serde_json::from_str(include_str!("vectors/identity.json")).expect("identity.json is JSON")
}

fn slots() -> Value {
    serde_json::from_str(include_str!("vectors/slots.json")).expect("slots.json is JSON")
}

/// The rows of one table; an empty or absent one fails, so that no test passes over nothing.
fn rows<'v>(vectors: &'v Value, table: &str) -> &'v [Value] {
    let rows = vectors[table].as_array().unwrap_or_else(|| panic!("no table {table}"));
    assert!(!rows.is_empty(), "table {table} is empty");
    rows
}

fn text<'v>(row: &'v Value, field: &str) -> &'v str {
    row[field].as_str().unwrap_or_else(|| panic!("no text {field} in {row}"))
}

fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {row}"))
}

/// Snowflakes stand as text, because JSON numbers of other languages end at 2^53.
fn snowflake(row: &Value) -> u64 {
    text(row, "snowflake").parse().expect("a snowflake is a decimal")
}

fn namespace(row: &Value) -> Namespace {
    Namespace::new(text(row, "ns")).expect("a namespace")
}

#[test]
fn the_contract_is_the_one_implemented_here() {
    assert_eq!(text(&identity(), "contract"), "1.0.0");
    assert_eq!(number(&identity(), "epoch_ms"), EPOCH_MS);
}

#[test]
fn encode_and_decode() {
    for row in rows(&identity(), "encode") {
        let id = BrandedId::encode(namespace(row), snowflake(row)).expect("encodes");
        assert_eq!(id.as_str(), text(row, "text"));
        let parsed = BrandedId::parse(text(row, "text").as_bytes()).expect("parses");
        assert_eq!(parsed, id);
        assert_eq!(parsed.snowflake(), snowflake(row));
        assert_eq!(parsed.namespace(), namespace(row));
    }
}

#[test]
fn the_last_vector_is_the_greatest_payload() {
    let last = BrandedId::encode(Namespace::JOB, MAX_SNOWFLAKE).expect("encodes");
    assert_eq!(&last.as_bytes()[3..], MAX_PAYLOAD);
}

#[test]
fn placement_hash() {
    for row in rows(&identity(), "hash32") {
        let expected = u32::try_from(number(row, "hash32")).expect("32 bits");
        assert_eq!(hash32(snowflake(row)), expected);
        let id = BrandedId::encode(Namespace::JOB, snowflake(row)).expect("encodes");
        assert_eq!(id.hash32(), expected);
        for bits in 0..=8 {
            assert_eq!(id.placement(bits).map(u32::from), Some(expected % (1 << bits)));
        }
        assert_eq!(id.placement(9), None);
        assert_eq!(id.placement(u32::MAX), None);
    }
}

#[test]
fn time_of_an_id() {
    for row in rows(&identity(), "unix_ms") {
        let id = BrandedId::encode(Namespace::JOB, snowflake(row)).expect("encodes");
        assert_eq!(id.unix_ms(), number(row, "unix_ms"));
    }
}

#[test]
fn every_reject_names_its_gate() {
    for row in rows(&identity(), "reject") {
        let rejected = BrandedId::parse(text(row, "text").as_bytes()).expect_err("is rejected");
        assert_eq!(rejected.gate().as_str(), text(row, "gate"), "{row}");
    }
}

#[test]
fn derived_ids() {
    for row in rows(&identity(), "derive") {
        let name = text(row, "name").as_bytes();
        let id = BrandedId::derive(namespace(row), name).expect("derives");
        assert_eq!(id.as_str(), text(row, "text"));
        assert_eq!(id.snowflake(), snowflake(row));
    }
}

#[test]
fn derived_ids_at_a_time() {
    for row in rows(&identity(), "derive_at") {
        let name = text(row, "name").as_bytes();
        let unix_ms = number(row, "unix_ms");
        let id = BrandedId::derive_at(namespace(row), unix_ms, name).expect("derives");
        assert_eq!(id.as_str(), text(row, "text"));
        assert_eq!(id.snowflake(), snowflake(row));
        assert_eq!(id.unix_ms(), unix_ms);
    }
}

#[test]
fn checksums_and_slots() {
    for row in rows(&slots(), "crc16_xmodem") {
        assert_eq!(u64::from(crc16(text(row, "input").as_bytes())), number(row, "crc"));
    }
    for row in rows(&slots(), "slots") {
        assert_eq!(u64::from(slot(text(row, "key").as_bytes())), number(row, "slot"), "{row}");
    }
}

#[test]
fn bytes_of_grammar_before_the_identity() {
    let id = BrandedId::parse(b"JOB00000000001").expect("parses");
    for row in rows(&slots(), "prefix_bytes") {
        assert_eq!(text(row, "type"), "job:");
        let keys = QueueKeys::new(QueueName::new(text(row, "queue")).expect("a queue's name"));
        let key = keys.job(&id);
        let prefix = key.strip_suffix(id.as_str()).expect("the id ends the key");
        assert_eq!(prefix.len() as u64, number(row, "bytes"));
    }
}
