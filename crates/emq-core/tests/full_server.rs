//! A server at its memory limit: nothing is admitted, everything can be drained.

mod ground;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use emq_core::{Enqueued, Error, Job, NewJob, Worker};
use emq_testkit::Valkey;
use ground::{builder_on, bus_on, healthy, soon, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_by_type_is_drained_and_lets_a_reconnecting_worker_in() {
    let valkey = Valkey::builder().maxmemory(12 * 1024 * 1024).start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let payload = vec![b'x'; 20 * 1024];
    let mut admitted = 0;
    let refused = soon("the limit", async {
        loop {
            match queue.enqueue(&payload).await {
                Ok(outcome) => assert!(matches!(outcome, Enqueued::Admitted(_))),
                Err(error) => return error,
            }
            admitted += 1;
        }
    })
    .await;
    assert!(matches!(refused, Error::OutOfMemory { .. }) && refused.is_retryable(), "{refused:?}");
    assert!(admitted > 10);
    assert_eq!(queue.depth().await.unwrap(), admitted);
    let list = [NewJob::new(bus.mint_job().await.unwrap(), payload.clone())];
    let error = queue.enqueue_many(&list).await.unwrap_err();
    assert!(matches!(error.cause, Error::OutOfMemory { .. }), "{error:?}");
    assert_eq!(error.not_sent, [list[0].id()]);

    // A bus that connects now is let in, and one that reconnects too.
    let worker_bus = builder_on(&valkey).connect().await.unwrap();
    let (gate, handled) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
    let worker = Worker::builder(worker_bus.queue("work").unwrap())
        .concurrency(4)
        .handler({
            let (gate, handled) = (Arc::clone(&gate), Arc::clone(&handled));
            move |_job: Job<bytes::Bytes>| {
                let (gate, handled) = (Arc::clone(&gate), Arc::clone(&handled));
                async move {
                    gate.acquire().await?.forget();
                    handled.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                }
            }
        })
        .start()
        .unwrap();
    let mut status = worker.status();
    soon("four jobs", status.wait_for(|status| status.in_flight >= 4)).await.unwrap();
    valkey.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    gate.add_permits(1_000_000);
    until("the drain", async || worker.totals().done == admitted).await;
    assert_eq!(handled.load(Ordering::SeqCst), admitted);
    assert!(matches!(queue.enqueue(&payload).await.unwrap(), Enqueued::Admitted(_)));
    let report = worker.stop(ground::PATIENCE).await;
    assert_eq!(report.abandoned, 0);
    healthy(&queue).await;
}
