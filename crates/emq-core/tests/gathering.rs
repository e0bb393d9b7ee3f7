//! Single enqueues of many tasks share calls, and nobody can tell by his verdict.

mod ground;

use std::collections::HashSet;
use std::time::Duration;

use emq_core::{EnqueueOptions, Enqueued, Error, Queue};
use emq_keys::{BrandedId, Namespace, namespace};
use emq_testkit::Valkey;
use ground::{bus_on, healthy, shared, soon};
use tokio::task::JoinSet;

type Outcomes = Vec<Result<Enqueued, Error>>;

/// Enqueues once from each of these tasks, all at the same time. Answers in their order.
async fn at_once(queue: &Queue, options: impl IntoIterator<Item = EnqueueOptions>) -> Outcomes {
    let mut tasks = JoinSet::new();
    for (at, options) in options.into_iter().enumerate() {
        let queue = queue.clone();
        tasks.spawn(async move { (at, queue.enqueue_with(at.to_string(), &options).await) });
    }
    let mut outcomes = soon("all callers", tasks.join_all()).await;
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

async fn ids(queue: &Queue, n: usize, namespace: Namespace) -> Vec<BrandedId> {
    let mut ids = Vec::new();
    for _ in 0..n {
        ids.push(queue.bus().mint(namespace).await.unwrap());
    }
    ids
}

fn named(ids: &[BrandedId]) -> Vec<EnqueueOptions> {
    ids.iter().map(|id| EnqueueOptions::new().id(*id)).collect()
}

#[tokio::test]
async fn many_tasks_share_calls_and_one_task_makes_its_own() {
    let (bus, queue) = shared().await;
    let _ = queue.enqueue("first").await.unwrap();
    let before = bus.counters().evalsha_calls;
    let admitted = at_once(&queue, vec![EnqueueOptions::new(); 250]).await;
    let different: HashSet<BrandedId> =
        admitted.iter().map(|outcome| outcome.as_ref().unwrap().id()).collect();
    assert_eq!(different.len(), 250);
    assert!(admitted.iter().all(|outcome| matches!(outcome, Ok(Enqueued::Admitted(_)))));
    let calls = bus.counters().evalsha_calls - before;
    // The first alone, and 249 by the hundred.
    assert_eq!(calls, 4);
    for n in 1..=5 {
        let _ = queue.enqueue("alone").await.unwrap();
        assert_eq!(bus.counters().evalsha_calls - before, calls + n);
    }
    assert_eq!(queue.depth().await.unwrap(), 256);
    healthy(&queue).await;
}

#[tokio::test]
async fn each_caller_has_the_verdict_and_the_row_of_a_call_of_his_own() {
    let (bus, queue) = shared().await;
    let holder = queue.enqueue_with("x", &EnqueueOptions::new().unique("k")).await.unwrap().id();
    let jobs = ids(&queue, 20, Namespace::JOB).await;
    let order = bus.mint(namespace!("ORD")).await.unwrap();
    let mut asked = named(&jobs);
    asked[3] = asked[2].clone();
    asked[4] = asked[4].clone().unique("k");
    asked[5] = asked[5].clone().id(order);
    asked[6] = asked[6].clone().kind("invoice").headers("{}").max_attempts(7);
    asked[7] = asked[7].clone().unique("free");
    asked[8] = asked[8].clone().unique("free");
    let outcomes = at_once(&queue, asked).await;
    for (at, outcome) in outcomes.iter().enumerate() {
        match (at, outcome) {
            (3, Ok(Enqueued::Duplicate(id))) => assert_eq!(*id, jobs[2]),
            (4, Ok(Enqueued::Held { by })) => assert_eq!(*by, holder),
            (5, Err(Error::Kind { id })) => assert_eq!(*id, order),
            (8, Ok(Enqueued::Held { by })) => assert_eq!(*by, jobs[7]),
            (3 | 4 | 5 | 8, other) => panic!("{at}: {other:?}"),
            (at, Ok(Enqueued::Admitted(id))) => {
                assert_eq!(*id, jobs[at]);
                let row = queue.get(*id).await.unwrap().unwrap();
                assert_eq!(row.payload, at.to_string());
            }
            (at, other) => panic!("{at}: {other:?}"),
        }
    }
    let row = queue.get(jobs[6]).await.unwrap().unwrap();
    assert_eq!((row.kind.as_deref(), row.max_attempts), (Some("invoice"), Some(7)));
    assert_eq!(queue.depth().await.unwrap(), 1 + 20 - 4);
    healthy(&queue).await;
}

#[tokio::test]
async fn lanes_and_queues_are_kept_apart() {
    let (bus, queue) = shared().await;
    let other = bus.queue(format!("{}-other", queue.name())).unwrap();
    let lanes = ids(&queue, 3, namespace!("TEN")).await;
    let before = bus.counters().evalsha_calls;
    let mut tasks = JoinSet::new();
    for at in 0..90 {
        let (queue, lane) = (if at % 2 == 0 { &queue } else { &other }.clone(), lanes[at % 3]);
        tasks.spawn(async move {
            match at % 9 {
                0..3 => queue.enqueue("flat").await,
                _ => queue.lane(lane).enqueue("lane").await,
            }
        });
    }
    for outcome in soon("all callers", tasks.join_all()).await {
        assert!(matches!(outcome, Ok(Enqueued::Admitted(_))), "{outcome:?}");
    }
    // The first alone, and one for the rest of each queue.
    assert_eq!(bus.counters().evalsha_calls - before, 3);
    for queue in [&queue, &other] {
        let mut depth = Vec::new();
        for lane in &lanes {
            depth.push(queue.lane(*lane).depth().await.unwrap());
        }
        assert_eq!(queue.counts().await.unwrap().pending, 15, "flat");
        assert_eq!(depth, [10, 10, 10]);
        healthy(queue).await;
    }
}

#[tokio::test]
async fn one_who_gives_up_takes_nobody_with_him() {
    let (_, queue) = shared().await;
    let _ = queue.enqueue("first").await.unwrap();
    let jobs = ids(&queue, 20, Namespace::JOB).await;
    let mut callers: Vec<_> = jobs
        .iter()
        .map(|id| {
            let (queue, options) = (queue.clone(), EnqueueOptions::new().id(*id));
            Box::pin(async move { queue.enqueue_with("x", &options).await })
        })
        .collect();
    // All are under way; the second, who began the batch, leaves at once.
    std::future::poll_fn(|cx| {
        for caller in &mut callers {
            assert!(caller.as_mut().poll(cx).is_pending());
        }
        std::task::Poll::Ready(())
    })
    .await;
    drop(callers.remove(1));
    for caller in callers {
        let outcome = soon("an answer", caller).await;
        assert!(matches!(outcome, Ok(Enqueued::Admitted(_))), "{outcome:?}");
    }
    healthy(&queue).await;
}

#[tokio::test]
async fn a_full_server_answers_each_as_if_alone() {
    let valkey = Valkey::start().unwrap();
    let (_, queue) = bus_on(&valkey).await;
    let there = queue.enqueue("first").await.unwrap().id();
    let jobs = ids(&queue, 10, Namespace::JOB).await;
    let mut asked = named(&jobs);
    asked[4] = EnqueueOptions::new().id(there);
    valkey.cli(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    for (at, outcome) in at_once(&queue, asked).await.into_iter().enumerate() {
        match outcome {
            Ok(Enqueued::Duplicate(id)) if at == 4 => assert_eq!(id, there),
            Err(Error::OutOfMemory { .. }) if at != 4 => {}
            other => panic!("{at}: {other:?}"),
        }
    }
    assert_eq!(queue.depth().await.unwrap(), 1);
}

#[tokio::test]
async fn a_lane_that_is_no_lane_spoils_its_own_callers_only() {
    let valkey = Valkey::start().unwrap();
    let (bus, queue) = bus_on(&valkey).await;
    let _ = queue.enqueue("first").await.unwrap();
    let lanes = ids(&queue, 2, namespace!("TEN")).await;
    let key = format!("emq:{{{}}}:g:{}:pending", queue.name(), lanes[0]);
    valkey.cli(&["SET", &key, "a text"]).unwrap();
    let mut tasks = JoinSet::new();
    for at in 0..20 {
        let lane = queue.lane(lanes[at % 2]);
        tasks.spawn(async move { (at, lane.enqueue("x").await) });
    }
    for (at, outcome) in soon("all callers", tasks.join_all()).await {
        assert_eq!(outcome.is_ok(), at % 2 == 1, "{at}: {outcome:?}");
    }
    assert_eq!(queue.lane(lanes[1]).depth().await.unwrap(), 10);
    drop(bus);
}

#[tokio::test]
async fn a_lost_reply_names_each_callers_own_job() {
    let valkey = Valkey::start().unwrap();
    let proxy = ground::proxy::Proxy::before(&valkey).await;
    let bus = emq_core::Bus::connect(&proxy.url()).await.unwrap();
    let queue = bus.queue("work").unwrap();
    let jobs = ids(&queue, 20, Namespace::JOB).await;
    proxy.swallow_replies();
    let (lost, ()) = tokio::join!(at_once(&queue, named(&jobs)), async {
        proxy.swallowed().await;
        // Both calls of the twenty: the first's, and that of the rest.
        let admitted = async || valkey.cli(&["ZCARD", "emq:{work}:pending"]).unwrap() == "20";
        ground::until("twenty jobs", admitted).await;
        proxy.cut();
    });
    for (id, outcome) in jobs.iter().zip(lost) {
        match outcome {
            Err(Error::Disconnected { id: Some(its), written: true, .. }) => assert_eq!(its, *id),
            other => panic!("{other:?}"),
        }
    }
    for (id, outcome) in jobs.iter().zip(at_once(&queue, named(&jobs)).await) {
        assert_eq!(outcome.unwrap(), Enqueued::Duplicate(*id));
    }
    healthy(&queue).await;
}

#[test]
fn a_caller_outside_the_runtime_is_served_too() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (_, queue) = runtime.block_on(shared());
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            std::thread::spawn(move || {
                let mut answered = 0;
                for _ in 0..50 {
                    let call = std::pin::pin!(queue.enqueue("x"));
                    answered += u32::from(outside(call).is_ok());
                }
                answered
            })
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap() == 50));
    assert_eq!(runtime.block_on(queue.depth()).unwrap(), 200);
}

/// Runs a future on this thread, without tokio.
fn outside<F: Future>(mut future: std::pin::Pin<&mut F>) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }
}
