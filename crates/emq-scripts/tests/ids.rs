//! Ids as scripts take them from any client: what parses nowhere is admitted nowhere.

mod support;

use emq_keys::BrandedId;
use emq_scripts::{CONTRACTS, Contract};
use support::ground::{Ground, bytes, good_args, keys_of};
use support::job;

/// The highest payload and its neighbours, and what is far from it on either side.
const PAYLOADS: [&str; 12] = [
    "00000000000",
    "9zzzzzzzzzz",
    "A0000000000",
    "AzL8n0Y57zz",
    "AzL8n0Y58m6",
    "AzL8n0Y58m7",
    "AzL8n0Y58m8",
    "AzL8n0Y58mz",
    "AzM00000000",
    "B0000000000",
    "Zzzzzzzzzzz",
    "zzzzzzzzzzz",
];

/// Calls that carry an id of this payload, as a job's or a lane's, wherever a script checks it.
fn calls(contract: &Contract, payload: &str) -> Vec<Vec<Vec<u8>>> {
    let (id, group) = (format!("JOB{payload}"), format!("TEN{payload}"));
    let script = contract.script.as_str();
    let admits = matches!(script, "enqueue" | "lane_enqueue" | "schedule" | "cancel" | "tick");
    let mut calls = Vec::new();
    for (at, arg) in contract.args.iter().enumerate() {
        let value = match *arg {
            "id" if admits => &id,
            "group" => &group,
            _ => continue,
        };
        let mut args = good_args(contract);
        args[at] = bytes(value);
        calls.push(args);
    }
    if contract.tail == Some("items") {
        let fine = job(51);
        for [id, group] in [[&id, ""], [fine.as_str(), &group]] {
            let mut args = good_args(contract);
            args[2] = bytes("1");
            args.extend([id, "p", group, "0", "0"].map(bytes));
            calls.push(args);
        }
    }
    calls
}

#[tokio::test]
async fn scripts_take_exactly_the_ids_that_parse() {
    let ground = Ground::new().await;
    let mut seen = 0;
    for payload in PAYLOADS {
        let parses = BrandedId::parse(format!("JOB{payload}").as_bytes()).is_ok();
        for contract in CONTRACTS {
            for args in calls(contract, payload) {
                seen += 1;
                let reply = ground.call(contract, &keys_of(contract), &args).await;
                let script = contract.script;
                match reply.as_error() {
                    None => assert!(parses, "{script} takes {payload}: {reply:?}"),
                    Some(error) => {
                        assert!(!parses && error.is("EMQARG"), "{script} {payload}: {error}");
                        assert_eq!(ground.now().await, ground.seeded, "{script} {payload}");
                    }
                }
                ground.seed().await;
            }
        }
    }
    // enqueue, schedule, cancel; lane_enqueue, schedule and tick by both; the four verbs of lanes; items.
    assert!(seen >= 13 * PAYLOADS.len(), "only {seen} calls");
}
