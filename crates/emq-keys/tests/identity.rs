//! What holds for every id, not only for those of the vectors.

use emq_keys::{
    BrandedId, DeriveError, EPOCH_MS, Gate, IdError, MAX_PAYLOAD, MAX_SNOWFLAKE, MAX_UNIX_MS,
    Namespace, namespace,
};
use proptest::prelude::*;

fn any_namespace() -> impl Strategy<Value = Namespace> {
    prop::array::uniform3(b'A'..=b'Z').prop_map(|bytes| Namespace::from_bytes(bytes).expect("A-Z"))
}

fn any_snowflake() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..=MAX_SNOWFLAKE,
        0..=4096_u64,
        (MAX_SNOWFLAKE - 4096)..=MAX_SNOWFLAKE,
        (0..63_u32).prop_map(|bit| 1 << bit),
    ]
}

/// Eleven base62 digits of any value, also far above 2^63 and 2^64.
fn any_payload() -> impl Strategy<Value = String> {
    let near_the_edge = (0..=20_000_u128).prop_map(|off| base62((1 << 63) - 10_000 + off));
    let past_two_words = (0..=20_000_u128).prop_map(|off| base62((1 << 64) - 10_000 + off));
    prop_oneof!["[0-9A-Za-z]{11}", "[0-9A][0-9A-Za-z]{10}", near_the_edge, past_two_words]
}

fn base62(mut value: u128) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut payload = [b'0'; 11];
    for digit in payload.iter_mut().rev() {
        *digit = DIGITS[(value % 62) as usize];
        value /= 62;
    }
    assert_eq!(value, 0, "eleven digits hold the value");
    String::from_utf8(payload.to_vec()).expect("ASCII")
}

/// The value of eleven digits in a type with room for all of them.
fn wide_value(payload: &str) -> u128 {
    payload.chars().fold(0, |value, digit| {
        let digit = match digit {
            '0'..='9' => digit as u128 - '0' as u128,
            'A'..='Z' => digit as u128 - 'A' as u128 + 10,
            _ => digit as u128 - 'a' as u128 + 36,
        };
        value * 62 + digit
    })
}

/// The gates as the specification lists them, one by one.
fn first_closed_gate(bytes: &[u8]) -> Option<Gate> {
    if bytes.len() != 14 {
        return Some(Gate::Length);
    }
    if !bytes[..3].iter().all(u8::is_ascii_uppercase) {
        return Some(Gate::Namespace);
    }
    if !bytes[3..].iter().all(u8::is_ascii_alphanumeric) {
        return Some(Gate::Charset);
    }
    (bytes[3..] > MAX_PAYLOAD[..]).then_some(Gate::Range)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn an_id_survives_the_round_trip(namespace in any_namespace(), snowflake in any_snowflake()) {
        let id = BrandedId::encode(namespace, snowflake).expect("in range");
        prop_assert_eq!(BrandedId::parse(id.as_bytes()), Ok(id));
        prop_assert_eq!(id.to_string().parse::<BrandedId>(), Ok(id));
        prop_assert_eq!(id.namespace(), namespace);
        prop_assert_eq!(id.snowflake(), snowflake);
        let parts = (id.unix_ms() - EPOCH_MS) << 22
            | u64::from(id.node()) << 12
            | u64::from(id.sequence());
        prop_assert_eq!(parts, snowflake);
    }

    #[test]
    fn parse_is_total_over_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert_eq!(BrandedId::parse(&bytes).err().map(|e| e.gate()), first_closed_gate(&bytes));
    }

    #[test]
    fn the_first_closed_gate_is_named(bytes in "[A-Za-z0-9!é]{12,15}") {
        let bytes = bytes.as_bytes();
        prop_assert_eq!(BrandedId::parse(bytes).err().map(|e| e.gate()), first_closed_gate(bytes));
    }

    #[test]
    fn the_range_gate_agrees_with_wide_arithmetic(payload in any_payload()) {
        let parsed = BrandedId::parse(format!("USR{payload}").as_bytes());
        let value = wide_value(&payload);
        if value < 1 << 63 {
            prop_assert_eq!(parsed.map(|id| u128::from(id.snowflake())), Ok(value));
        } else {
            prop_assert_eq!(parsed.map_err(|e| e.gate()), Err(Gate::Range));
        }
    }

    #[test]
    fn byte_order_is_numeric_order(
        namespace in any_namespace(), one in any_snowflake(), other in any_snowflake()
    ) {
        let a = BrandedId::encode(namespace, one).expect("in range");
        let b = BrandedId::encode(namespace, other).expect("in range");
        prop_assert_eq!(a.cmp(&b), one.cmp(&other));
        prop_assert_eq!(a.as_str().cmp(b.as_str()), one.cmp(&other));
        prop_assert_eq!(a == b, one == other);
    }

    #[test]
    fn a_window_holds_exactly_its_milliseconds(
        snowflake in any_snowflake(), from in 0..1_u64 << 41, until in 0..1_u64 << 41
    ) {
        let id = BrandedId::encode(Namespace::JOB, snowflake).expect("in range");
        let least = |ms| BrandedId::min_for(Namespace::JOB, EPOCH_MS + ms).expect("in range");
        let by_key = least(from) <= id && id < least(until);
        let by_time = (EPOCH_MS + from..EPOCH_MS + until).contains(&id.unix_ms());
        prop_assert_eq!(by_key, by_time);
    }

    #[test]
    fn derived_ids_are_stable_well_formed_and_of_their_kind(
        namespace in any_namespace(), name in prop::collection::vec(any::<u8>(), 0..64),
        at in EPOCH_MS..=MAX_UNIX_MS
    ) {
        let tick = BrandedId::derive_at(namespace, at, &name).expect("in range");
        prop_assert_eq!(BrandedId::parse(tick.as_bytes()), Ok(tick));
        prop_assert_eq!(tick.unix_ms(), at);
        prop_assert_eq!(BrandedId::derive_at(namespace, at, &name), Ok(tick));
        match BrandedId::derive(namespace, &name) {
            Ok(id) => {
                prop_assert_eq!(BrandedId::parse(id.as_bytes()), Ok(id));
                prop_assert_eq!(id.namespace(), namespace);
                prop_assert_eq!(id.snowflake() & 0x3F_FFFF, tick.snowflake() & 0x3F_FFFF);
            }
            Err(refused) => {
                prop_assert_eq!(refused, DeriveError::JobByHash);
                prop_assert_eq!(namespace, Namespace::JOB);
            }
        }
    }
}

#[test]
fn payloads_that_would_wrap_to_a_small_number_are_out_of_range() {
    for value in [1_u128 << 63, (1 << 64) - 1, 1 << 64, (1 << 64) + 1, 62_u128.pow(11) - 1] {
        let text = format!("JOB{}", base62(value));
        assert_eq!(BrandedId::parse(text.as_bytes()).map_err(|e| e.gate()), Err(Gate::Range));
    }
    assert_eq!(base62((1 << 63) - 1).as_bytes(), MAX_PAYLOAD);
}

#[test]
fn encode_refuses_what_does_not_fit() {
    for value in [MAX_SNOWFLAKE + 1, u64::MAX] {
        let refused = BrandedId::encode(Namespace::JOB, value).expect_err("above 63 bits");
        assert_eq!(refused.gate(), Gate::Range);
        assert!(refused.to_string().contains(&value.to_string()), "{refused}");
    }
}

#[test]
fn times_outside_the_ids_range_are_refused() {
    let refused = |unix_ms| BrandedId::min_for(Namespace::JOB, unix_ms).map_err(|e| e.gate());
    assert_eq!(refused(EPOCH_MS).map(|id| id.snowflake()), Ok(0));
    assert_eq!(refused(MAX_UNIX_MS).map(|id| id.unix_ms()), Ok(MAX_UNIX_MS));
    for unix_ms in [0, EPOCH_MS - 1, MAX_UNIX_MS + 1, u64::MAX] {
        assert_eq!(refused(unix_ms), Err(Gate::Range));
        let derived = BrandedId::derive_at(Namespace::JOB, unix_ms, b"tick");
        assert!(matches!(derived, Err(DeriveError::Time(cause)) if cause.gate() == Gate::Range));
    }
    assert_eq!(MAX_UNIX_MS - EPOCH_MS, (1 << 41) - 1);
}

#[test]
fn a_job_is_not_named_by_a_hash_but_may_be_at_a_time() {
    let refused = BrandedId::derive(Namespace::JOB, b"nightly-report");
    assert_eq!(refused, Err(DeriveError::JobByHash));
    assert!(BrandedId::derive_at(Namespace::JOB, EPOCH_MS, b"nightly-report").is_ok());
}

#[test]
fn a_derived_name_and_its_kind_do_not_run_into_each_other() {
    let id = |ns: Namespace, name: &[u8]| BrandedId::derive(ns, name).expect("derives");
    let (ten, tex) = (namespace!("TEN"), namespace!("TEX"));
    assert_ne!(id(ten, b"a").snowflake(), id(tex, b"a").snowflake());
    assert_ne!(id(ten, b""), id(ten, b"\0"));
    assert_ne!(id(ten, b"a"), id(ten, b"\0a"));
}

#[test]
fn a_rejection_says_what_and_where() {
    let said = |bytes: &[u8]| BrandedId::parse(bytes).map_err(|e| e.to_string()).expect_err("bad");
    assert!(said(b"JOB1").starts_with("length: an id is 14 bytes and this is 4"));
    assert!(said(b"JoB00000000000").starts_with("namespace: byte 1 is 'o'"));
    assert!(said(b"JOB0000\xff000000").starts_with("charset: byte 7 is '\\xff'"));
    assert!(said(b"JOBzzzzzzzzzzz").starts_with("range: the payload is greater than AzL8n0Y58m7"));
}

#[test]
fn namespaces_are_three_capital_letters() {
    const ORDER: Namespace = namespace!("ORD");
    assert_eq!(Namespace::try_from(*b"ORD"), Ok(ORDER));
    assert_eq!("ORD".parse::<Namespace>(), Ok(ORDER));
    assert_eq!(ORDER.to_string(), "ORD");
    for bad in ["", "OR", "ORDE", "ord", "OR1", "O D", "É1"] {
        assert_eq!(Namespace::new(bad).map_err(|e| e.gate()), Err(Gate::Namespace), "{bad}");
    }
}

#[test]
fn ids_are_small_shareable_values_that_format_like_text() {
    fn plain<T: Copy + Send + Sync + std::hash::Hash + Ord>() {}
    plain::<BrandedId>();
    plain::<Namespace>();
    assert_eq!(size_of::<BrandedId>(), 14);
    assert_eq!(size_of::<Option<IdError>>(), size_of::<IdError>());
    let id = BrandedId::try_from("JOB00000000001").expect("parses");
    assert_eq!(BrandedId::try_from(b"JOB00000000001".as_slice()), Ok(id));
    assert_eq!(format!("{id:>16}|{id:?}"), "  JOB00000000001|BrandedId(JOB00000000001)");
    assert_eq!(AsRef::<[u8]>::as_ref(&id), AsRef::<str>::as_ref(&id).as_bytes());
}
