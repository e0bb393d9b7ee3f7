//! Names in JSON: text, through the same gates.

#![cfg(feature = "serde")]

use std::collections::BTreeMap;

use emq_keys::{BrandedId, Namespace, NodeId, QueueName};

#[test]
fn names_are_text_and_come_back() {
    let id: BrandedId = "JOB0NgWEfAEJfs".parse().expect("an id");
    assert_eq!(serde_json::to_string(&id).expect("writes"), "\"JOB0NgWEfAEJfs\"");
    assert_eq!(serde_json::from_str::<BrandedId>("\"JOB0NgWEfAEJfs\"").expect("reads"), id);
    assert_eq!(serde_json::from_str::<BrandedId>("\"JOB0NgWEfAEJf\\u0073\"").expect("reads"), id);

    let queue = QueueName::new("orders").expect("a name");
    assert_eq!(serde_json::to_string(&queue).expect("writes"), "\"orders\"");
    assert_eq!(serde_json::from_str::<QueueName>("\"orders\"").expect("reads"), queue);

    assert_eq!(serde_json::to_string(&Namespace::JOB).expect("writes"), "\"JOB\"");
    assert_eq!(serde_json::from_str::<Namespace>("\"JOB\"").expect("reads"), Namespace::JOB);

    assert_eq!(serde_json::to_string(&NodeId::MAX).expect("writes"), "1023");
    assert_eq!(serde_json::from_str::<NodeId>("1023").expect("reads"), NodeId::MAX);
}

#[test]
fn an_id_can_be_the_name_of_a_json_field() {
    let id: BrandedId = "JOB0NgWEfAEJfs".parse().expect("an id");
    let map = BTreeMap::from([(id, 1)]);
    let json = serde_json::to_string(&map).expect("writes");
    assert_eq!(json, "{\"JOB0NgWEfAEJfs\":1}");
    assert_eq!(serde_json::from_str::<BTreeMap<BrandedId, i32>>(&json).expect("reads"), map);
}

#[test]
fn what_the_gates_refuse_is_not_read() {
    for (json, gate) in [
        ("\"\"", "length"),
        ("\"12345678901234\"", "namespace"),
        ("\"JOB0NgWEfAEJ!s\"", "charset"),
        ("\"JOBzzzzzzzzzzz\"", "range"),
    ] {
        let error = serde_json::from_str::<BrandedId>(json).expect_err("is refused");
        assert!(error.to_string().starts_with(gate), "{error}");
    }
    assert!(serde_json::from_str::<BrandedId>("14").is_err());
    assert!(serde_json::from_str::<Namespace>("\"job\"").is_err());
    assert!(serde_json::from_str::<Namespace>("\"JOBS\"").is_err());
    assert!(serde_json::from_str::<QueueName>("\"emq\"").is_err());
    assert!(serde_json::from_str::<QueueName>("\"a:b\"").is_err());
    assert!(serde_json::from_str::<NodeId>("1024").is_err());
}
