//! The typed calls read the same over RESP3.

mod support;

use std::time::Duration;

use emq_scripts::{
    AdmitOptions, Admitted, Claim, Complete, Completed, Enqueue, FenceOptions, Fenced, NodeLease,
    Promote, Reap, Reaped, Retried, Retry,
};
use emq_testkit::Valkey;
use emq_wire::Protocol;
use support::{config, job, queue};

#[tokio::test]
async fn a_job_crosses_over_resp3() {
    let valkey = Valkey::start().unwrap();
    let config = config(&valkey).protocol(Protocol::Resp3);
    let fenced = Fenced::connect(config, FenceOptions::default()).await.unwrap();
    assert!(fenced.engine().is_valkey() && fenced.clock_skew_ms().is_some());
    let keys = queue("orders");
    let (id, options, durable) = (job(1), AdmitOptions::default(), false);
    let unique = AdmitOptions { unique: Some("key"), ..options };
    let enqueue = Enqueue { id, payload: b"p", options: unique, durable };
    assert_eq!(fenced.call(&keys, &enqueue).await.unwrap(), Admitted::Admitted);
    let rival = Enqueue { id: job(2), ..enqueue };
    assert_eq!(fenced.call(&keys, &rival).await.unwrap(), Admitted::Held(id));

    let claim = Claim { lease: Duration::from_secs(60), ticket: Some("me.1") };
    let token = fenced.call(&keys, &claim).await.unwrap().unwrap().token;
    assert_eq!(fenced.call(&keys, &claim).await.unwrap(), None);
    let ticket = Some("me.1");
    let (delay, max_attempts, error, force_dead) = (Duration::ZERO, 9, "why", false);
    let retry = Retry { id, token, ticket, delay, max_attempts, error, force_dead };
    assert_eq!(fenced.call(&keys, &retry).await.unwrap(), Retried::Scheduled);
    assert!(fenced.call(&keys, &retry).await.unwrap_err().is_stale());
    assert_eq!(fenced.call(&keys, &Promote { limit: 9 }).await.unwrap(), 1);
    let reap = Reap { limit: 9, lost_cap: 9 };
    assert_eq!(fenced.call(&keys, &reap).await.unwrap(), Reaped::default());
    let token = fenced.call(&keys, &claim).await.unwrap().unwrap().token;
    let complete = Complete { id, token, ticket };
    assert_eq!(fenced.call(&keys, &complete).await.unwrap(), Completed::Done);

    let (lease, grace) = (Duration::from_secs(1), Duration::ZERO);
    let leased = fenced.node_lease(&NodeLease { owner: "me", lease, grace, node: None }).await;
    assert_eq!(leased.unwrap().node.number(), 0);
}
