//! The files: a schema that holds, in the order that the chapter has, and no script left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use conformance::{Bundle, Contract, Set, home};
use serde_json::Value;

const FOURTEEN: [&str; 14] = [
    "fence",
    "mint",
    "duplicate",
    "kind",
    "order",
    "claim",
    "stale",
    "complete",
    "retry",
    "dead",
    "reap",
    "rotate",
    "pause",
    "limit",
];

fn lua() -> PathBuf {
    home().join("../lua")
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Every contract's file as JSON.
fn files() -> Vec<(PathBuf, Value)> {
    let mut files = Vec::new();
    for folder in ["contracts", "contracts2"] {
        for entry in fs::read_dir(home().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let value = json(&path);
            files.push((path, value));
        }
    }
    files
}

fn schema() -> jsonschema::Validator {
    jsonschema::validator_for(&json(&home().join("schema.json"))).unwrap()
}

#[test]
fn every_contract_is_of_the_schema() {
    let schema = schema();
    let files = files();
    assert!(files.len() > 14);
    for (path, contract) in files {
        let errors: Vec<_> = schema.iter_errors(&contract).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{}: {errors:?}", path.display());
    }
}

#[test]
fn the_schema_refuses_what_no_driver_could_drive() {
    let schema = schema();
    let contract =
        |step: Value| serde_json::json!({ "name": "x", "why": "It holds.", "steps": [step] });
    let step = serde_json::json!({ "says": "s", "command": ["GET", "x"], "expect": null });
    assert!(schema.is_valid(&contract(step.clone())));
    let mut spoilt = Vec::new();
    for (field, value) in [
        ("clock", serde_json::json!("now")),
        ("args", serde_json::json!([])),
        ("colour", serde_json::json!("red")),
        ("expect", serde_json::json!({ "error": "ERR" })),
        ("expect", serde_json::json!({ "each": 1 })),
        ("expect", serde_json::json!({ "any": true, "length": 1 })),
        ("leaves", serde_json::json!({ "rings": [] })),
        ("says", serde_json::json!("")),
    ] {
        let mut step = step.clone();
        step[field] = value;
        spoilt.push(step);
    }
    for missing in ["says", "command", "expect"] {
        let mut step = step.clone();
        step.as_object_mut().unwrap().remove(missing);
        spoilt.push(step);
    }
    for step in spoilt {
        assert!(!schema.is_valid(&contract(step.clone())), "{step}");
    }
}

#[test]
fn the_seed_is_the_fourteen_in_order_and_the_sets_are_numbered_without_gaps() {
    let names = |set| {
        let contracts = Contract::load(&home(), set).unwrap();
        assert!(contracts.iter().zip(1..).all(|(contract, n)| contract.number == n), "{set:?}");
        contracts.into_iter().map(|contract| contract.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Set::Seed), FOURTEEN);
    let mut all = [names(Set::Seed), names(Set::Second)].concat();
    all.sort();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "a name is used twice");
}

/// The names of the keys in the scripts' own headers.
fn keys_of_headers() -> BTreeMap<String, Vec<String>> {
    let mut keys = BTreeMap::new();
    for entry in fs::read_dir(lua()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "lua") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("-- KEYS["));
        let key = |line: &str| {
            let name = line.split_whitespace().nth(1).unwrap();
            name.strip_prefix("emq:{q}:").unwrap_or(name).to_owned()
        };
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        keys.insert(name, lines.map(key).collect());
    }
    keys
}

#[test]
fn calls_json_has_the_keys_of_every_header_in_order() {
    let calls = fs::read_to_string(home().join("calls.json")).unwrap();
    let calls: BTreeMap<String, Vec<String>> = serde_json::from_str(&calls).unwrap();
    assert_eq!(calls, keys_of_headers());
}

#[test]
fn every_script_of_the_bundle_is_called_by_a_contract() {
    let called: Vec<String> = files()
        .iter()
        .flat_map(|(_, contract)| contract["steps"].as_array().unwrap().clone())
        .filter_map(|step| Some(step["script"].as_str()?.to_owned()))
        .collect();
    let bundle = Bundle::load(&lua(), &home()).unwrap();
    let left_out: Vec<_> =
        bundle.digests().filter(|(name, _)| !called.iter().any(|called| called == name)).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}
