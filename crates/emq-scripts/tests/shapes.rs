//! Calls go out as their contracts say, and any reply at all can come back.

mod support;

use std::time::Duration;

use bytes::Bytes;
use emq_keys::NodeId;
use emq_scripts::{
    Admitted, Bundle, CallError, Claim, Contract, EnqueueMany, LaneClaim, ManyItem, NodeLease,
    RefusalClass, Retried, Retry, ScriptCall, ScriptName, Verdict,
};
use emq_wire::{Cmd, Reply, ServerError};
use proptest::prelude::*;
use support::samples::{self, Visit};
use support::{job, lane, queue};

/// The arguments of a command, the first of which is EVALSHA.
fn words(cmd: &Cmd) -> Vec<Vec<u8>> {
    let bytes = cmd.to_bytes();
    let mut rest = &bytes[..];
    let mut line = |mark: u8| -> usize {
        let end = rest.windows(2).position(|pair| pair == b"\r\n").unwrap();
        assert_eq!(rest[0], mark);
        let number = std::str::from_utf8(&rest[1..end]).unwrap().parse().unwrap();
        rest = &rest[end + 2..];
        number
    };
    let count = line(b'*');
    let mut words = Vec::new();
    let mut offset = bytes.len() - rest.len();
    for _ in 0..count {
        let end = offset + bytes[offset..].windows(2).position(|pair| pair == b"\r\n").unwrap();
        let len: usize = std::str::from_utf8(&bytes[offset + 1..end]).unwrap().parse().unwrap();
        words.push(bytes[end + 2..end + 2 + len].to_vec());
        offset = end + 2 + len + 2;
    }
    assert_eq!(offset, bytes.len());
    words
}

fn check(contract: &Contract, cmd: &Cmd) {
    let script = contract.script;
    let words = words(cmd);
    assert_eq!(words[0], b"EVALSHA");
    assert_eq!(words[1], Bundle::embedded().script(script).sha1().as_bytes(), "{script}");
    assert_eq!(words[2], contract.keys.len().to_string().as_bytes(), "{script}");
    let (keys, args) = words[3..].split_at(contract.keys.len());
    for (key, pattern) in keys.iter().zip(contract.keys) {
        assert_eq!(*key, pattern.to_string().replace("{q}", "{orders}").into_bytes(), "{script}");
    }
    match contract.tail {
        None => assert_eq!(args.len(), contract.args.len(), "{script}"),
        // Four pairs, or two items of which one has four pairs.
        Some("pairs") => assert_eq!(args.len(), contract.args.len() + 8, "{script}"),
        Some("items") => assert_eq!(args.len(), contract.args.len() + 2 * 5 + 8, "{script}"),
        Some("subjects") => assert_eq!(args.len(), contract.args.len() + 2, "{script}"),
        // A run of each verb, of which that of completes has two items.
        Some(_) => {
            assert_eq!(args.len(), contract.args.len() + 4 * 3 + 5 + 4 * 2, "{script}");
        }
    }
    if contract.args.first() == Some(&"base") {
        assert_eq!(args[0], b"emq:{orders}:", "{script}");
    }
}

#[derive(Default)]
struct Encoded(Vec<ScriptName>);

impl Visit for Encoded {
    fn visit<C: ScriptCall>(&mut self, call: &C) {
        let bundle = Bundle::embedded();
        check(&C::CONTRACT, &call.encode(bundle.script(C::SCRIPT), &queue("orders")));
        self.0.push(C::SCRIPT);
    }
}

const ANY_NODE: NodeLease<'static> = NodeLease {
    owner: "me",
    lease: Duration::from_secs(1),
    grace: Duration::from_secs(2),
    node: None,
};

#[test]
fn each_call_sends_what_its_contract_says() {
    let mut encoded = Encoded::default();
    samples::each(&mut encoded);
    let bundle = Bundle::embedded();
    check(&NodeLease::CONTRACT, &ANY_NODE.encode(bundle.script(ScriptName::NodeLease)));
    encoded.0.push(ScriptName::NodeLease);
    assert_eq!(encoded.0, ScriptName::ALL);
}

/// Any reply that a decoder may hand out, well-known words and ids among the strings.
fn any_reply() -> impl Strategy<Value = Reply> {
    let bulk = prop_oneof![
        any::<Vec<u8>>().prop_map(Bytes::from),
        Just(Bytes::from_static(b"scheduled")),
        Just(Bytes::from_static(b"dead")),
        Just(Bytes::copy_from_slice(job(1).as_bytes())),
        Just(Bytes::from_static(b"JOBzzzzzzzzzzz")),
    ];
    let leaf = prop_oneof![
        Just(Reply::Nil),
        (-3_i64..4).prop_map(Reply::Int),
        any::<i64>().prop_map(Reply::Int),
        bulk.clone().prop_map(Reply::Bulk),
        bulk.clone().prop_map(Reply::Simple),
        bulk.clone().prop_map(Reply::BigNumber),
        bulk.prop_map(|line| Reply::Error(ServerError::from_line(line))),
        any::<f64>().prop_map(Reply::Double),
        any::<bool>().prop_map(Reply::Bool),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Reply::Array),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Reply::Set),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Reply::Map),
        ]
    })
}

struct Decoded(Reply);

impl Visit for Decoded {
    fn visit<C: ScriptCall>(&mut self, call: &C) {
        let is_error = matches!(self.0, Reply::Error(_));
        match call.decode(self.0.clone()) {
            Ok(_) => assert!(!is_error, "{} took an error for a success", C::SCRIPT),
            Err(CallError::Shape { .. }) => assert!(!is_error, "{} lost an error", C::SCRIPT),
            Err(other) => assert!(is_error, "{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_is_total(reply in any_reply()) {
        // One reply in all: a panic in any decoder fails the case.
        samples::each(&mut Decoded(reply.clone()));
        let leased = ANY_NODE.decode(reply.clone());
        prop_assert_eq!(matches!(reply, Reply::Error(_)), !matches!(leased, Ok(_)
            | Err(CallError::Shape { .. })));
    }
}

fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
    Reply::Bulk(Bytes::copy_from_slice(bytes.as_ref()))
}

fn is_shape<T>(outcome: &Result<T, CallError>) -> bool {
    matches!(outcome, Err(CallError::Shape { .. }))
}

#[test]
fn a_claim_is_read_whole_or_not_at_all() {
    let claim = Claim { lease: Duration::from_secs(1), ticket: None };
    let (id, group) = (job(1), lane(1));
    let fields = |more: &[Reply]| {
        Reply::Array([&[bulk(id.as_bytes()), bulk("p"), Reply::Int(1)], more].concat())
    };
    assert_eq!(claim.decode(Reply::Array(vec![])).unwrap(), None);
    let claimed = claim.decode(fields(&[])).unwrap().unwrap();
    assert_eq!((claimed.id, claimed.token, &claimed.payload[..]), (id, 1, &b"p"[..]));
    assert_eq!((claimed.group, claimed.checkpoint), (None, None));
    let claimed = claim.decode(fields(&[bulk("half")])).unwrap().unwrap();
    assert_eq!(claimed.checkpoint.as_deref(), Some(&b"half"[..]));

    for wrong in [
        Reply::Nil,
        Reply::Array(vec![bulk(id.as_bytes())]),
        Reply::Array(vec![bulk("JOBzzzzzzzzzzz"), bulk("p"), Reply::Int(1)]),
        Reply::Array(vec![bulk(id.as_bytes()), bulk("p"), Reply::Int(0)]),
        Reply::Array(vec![bulk(id.as_bytes()), bulk("p"), bulk("1")]),
        Reply::Array(vec![bulk(id.as_bytes()), Reply::Nil, Reply::Int(1)]),
        fields(&[Reply::Nil]),
        fields(&[bulk("half"), bulk("more")]),
    ] {
        assert!(is_shape(&claim.decode(wrong)));
    }

    let claim = LaneClaim { lease: Duration::from_secs(1), ticket: None };
    let claimed = claim.decode(fields(&[bulk(group.as_bytes())])).unwrap().unwrap();
    assert_eq!(claimed.group, Some(group));
    assert!(is_shape(&claim.decode(fields(&[]))));
    assert!(is_shape(&claim.decode(fields(&[bulk("no lane")]))));
}

#[test]
fn verdicts_answer_items_one_by_one() {
    let options = emq_scripts::AdmitOptions::default();
    let item = |n| ManyItem { id: job(n), payload: b"", group: None, run_at_ms: None, options };
    let items = [item(1), item(2), item(3), item(4)];
    let call = EnqueueMany { items: &items, durable: false };
    let replies = [Reply::Int(1), Reply::Int(0), Reply::Int(-1), bulk(job(9).as_bytes())];
    let verdicts = call.decode(Reply::Array(replies.to_vec())).unwrap();
    let expected = [Verdict::Admitted, Verdict::Duplicate, Verdict::Kind, Verdict::Held(job(9))];
    assert_eq!(verdicts, expected);
    assert!(is_shape(&call.decode(Reply::Array(replies[..3].to_vec()))));
    assert!(is_shape(&call.decode(Reply::Array(vec![Reply::Int(2); 4]))));
    assert!(is_shape(&call.decode(Reply::Int(1))));
}

#[test]
fn an_error_longer_than_the_bound_leaves_cut_at_a_character() {
    let error = "é".repeat(4096);
    let retry = Retry {
        id: job(1),
        token: 1,
        ticket: None,
        delay: Duration::from_nanos(1),
        max_attempts: 1,
        error: &error,
        force_dead: true,
    };
    let script = Bundle::embedded();
    let sent = words(&retry.encode(script.script(ScriptName::Retry), &queue("orders")));
    let args = &sent[3 + Retry::CONTRACT.keys.len()..];
    assert_eq!(args[6], "é".repeat(2048).as_bytes());
    assert_eq!((&args[4][..], &args[5][..], &args[7][..]), (&b"1"[..], &b"1"[..], &b"1"[..]));
    assert_eq!(retry.decode(bulk("dead")).unwrap(), Retried::Dead);
}

#[test]
fn a_held_unique_key_names_its_holder_and_nothing_else() {
    let enqueue = emq_scripts::Enqueue {
        id: job(1),
        payload: b"",
        options: samples::ALL_OPTIONS,
        durable: false,
    };
    let holder = enqueue.decode(bulk(job(2).as_bytes())).unwrap();
    assert_eq!(holder, Admitted::Held(job(2)));
    assert!(is_shape(&enqueue.decode(bulk("not an id"))));
}

#[test]
fn a_node_is_one_of_1024() {
    let leased = ANY_NODE.decode(Reply::Array(vec![Reply::Int(1023), Reply::Int(5)])).unwrap();
    assert_eq!((leased.node, leased.expires_ms), (NodeId::MAX, 5));
    let error = ServerError::from_line(Bytes::from_static(b"EMQSTATE none left"));
    let refused = ANY_NODE.decode(Reply::Error(error)).unwrap_err();
    assert_eq!(refused.refusal(), Some(&RefusalClass::State));
    for wrong in [
        Reply::Array(vec![Reply::Int(1024), Reply::Int(5)]),
        Reply::Array(vec![Reply::Int(-1), Reply::Int(5)]),
        Reply::Array(vec![Reply::Int(1)]),
        Reply::Int(1),
    ] {
        assert!(is_shape(&ANY_NODE.decode(wrong)));
    }
}
