//! Lost replies and bounds, as a producer sees them.

mod ground;

use emq_core::{Bus, EnqueueOptions, Enqueued, Error};
use emq_testkit::Valkey;
use ground::proxy::Proxy;
use ground::{admit, bus_on, healthy, soon, until};

#[tokio::test]
async fn an_enqueue_whose_reply_was_lost_tells_its_id_and_is_sent_again_safely() {
    let valkey = Valkey::start().unwrap();
    let proxy = Proxy::before(&valkey).await;
    let bus = Bus::connect(&proxy.url()).await.unwrap();
    let queue = bus.queue("work").unwrap();
    admit(&queue, "first").await;
    proxy.swallow_replies();
    let (lost, ()) = tokio::join!(queue.enqueue("x"), async {
        proxy.swallowed().await;
        proxy.cut();
    });
    let Err(error @ Error::Disconnected { id: Some(id), written: true, .. }) = lost else {
        panic!("{lost:?}")
    };
    assert!(error.is_retryable());
    let again = queue.enqueue_with("x", &EnqueueOptions::new().id(id)).await.unwrap();
    assert_eq!(again, Enqueued::Duplicate(id));
    assert_eq!(queue.depth().await.unwrap(), 2);
    healthy(&queue).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_that_could_not_be_sent_says_that_it_did_not_run() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let id = admit(&queue, "first").await;
    valkey.kill9().unwrap();
    let lost = async || queue.cancel(id).await;
    // The first may meet the loss itself; the next ones meet a connection that isn't there.
    until("the loss", async || {
        matches!(lost().await, Err(Error::Disconnected { written: false, .. }))
    })
    .await;
    drop(bus);
}

#[tokio::test]
async fn a_call_over_the_bound_is_refused_by_type_and_the_rest_are_served() {
    let valkey = Valkey::start().unwrap();
    let bus = ground::builder_on(&valkey)
        .configure(|config| config.max_in_flight(2))
        .connect()
        .await
        .unwrap();
    let queue = bus.queue("work").unwrap();
    admit(&queue, "first").await;
    valkey.pause().unwrap();
    let (one, two) = (queue.clone(), queue.clone());
    let one = tokio::spawn(async move { one.depth().await });
    let two = tokio::spawn(async move { two.depth().await });
    until("two in flight", async || bus.fenced().connection().in_flight() == 2).await;
    let refused = queue.depth().await;
    assert!(matches!(&refused, Err(Error::Overloaded { .. })), "{refused:?}");
    assert!(refused.unwrap_err().is_retryable());
    valkey.resume().unwrap();
    for call in [one, two] {
        assert_eq!(soon("a reply", call).await.unwrap().unwrap(), 1);
    }
    healthy(&queue).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_ours_is_told_apart() {
    let valkey = Valkey::start().unwrap();
    valkey.cli(&["SET", "{emq}:version", "echomq:9.9.9"]).unwrap();
    let refused = Bus::connect(&valkey.url()).await;
    let Err(error @ Error::Refused(_)) = refused else { panic!("{refused:?}") };
    assert!(!error.is_retryable() && error.fence().is_some());
    assert_eq!(valkey.cli(&["KEYS", "emq:*"]).unwrap(), "");

    valkey.kill9().unwrap();
    let absent = ground::builder_on(&valkey)
        .configure(|config| {
            config.reconnect(emq_wire::Reconnect {
                initial_wait: std::time::Duration::ZERO,
                ..emq_wire::Reconnect::default()
            })
        })
        .connect()
        .await;
    assert!(matches!(absent, Err(Error::Disconnected { written: false, .. })), "{absent:?}");
    let nonsense = Bus::connect("http://nowhere").await;
    assert!(matches!(nonsense, Err(Error::Config(_))), "{nonsense:?}");
}
