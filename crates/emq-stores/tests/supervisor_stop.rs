//! A stop is over within the sum of the graces, whatever the owners do.

mod supervisor_support;

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use emq_stores::supervisor::{
    Killed, Owner, OwnerContext, OwnerEnd, OwnerError, OwnerFailure, OwnerPhase, Supervisor,
};
use supervisor_support::{Diary, PATIENCE, failing, soon, steady, until};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::Instant;

/// An owner that never listens.
fn deaf(name: &'static str, grace: Duration) -> Owner {
    Owner::new(name, |context| async move {
        context.ready();
        std::future::pending().await
    })
    .grace(grace)
}

/// An owner that blocks its thread, and the test's hold on it.
struct Blocker {
    owner: Owner,
    /// It does so now. A test that doesn't wait for this may abort it while it still can be.
    blocks: Arc<Notify>,
    /// Dropped, it lets the thread go.
    release: mpsc::Sender<()>,
}

/// An owner that says it is ready, waits for what `first` makes of its context, and then blocks.
fn blocking<F, Fut>(name: &'static str, grace: Duration, first: F) -> Blocker
where
    F: Fn(OwnerContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let blocks = Arc::new(Notify::new());
    let says = Arc::clone(&blocks);
    let owner = Owner::new(name, move |context| {
        let (released, says) = (Arc::clone(&released), Arc::clone(&says));
        let first = first(context.clone());
        async move {
            context.ready();
            first.await;
            says.notify_one();
            let _ = released.lock().unwrap().recv();
            context.stopping().cancelled().await;
            Ok(())
        }
    });
    Blocker { owner: owner.grace(grace), blocks, release }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_ignores_its_token_is_aborted_within_its_grace() {
    let diary = Diary::default();
    let (long, short) = (Duration::from_secs(3), Duration::from_millis(400));
    let tree = Supervisor::new()
        .owner(deaf("long", long))
        .owner(steady("quick", &diary))
        .owner(deaf("short", short))
        .start()
        .unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    let began = Instant::now();
    let report = tree.stop().await;
    // The last tenth of a second of each grace is for the abort, which took none of it.
    assert_eq!(began.elapsed().as_millis(), 2_900 + 300);
    assert_eq!(report.took, began.elapsed());
    for name in ["long", "short"] {
        assert!(matches!(report.owner(name).unwrap().end, OwnerEnd::Aborted), "{report:?}");
    }
    assert!(matches!(report.owner("quick").unwrap().end, OwnerEnd::Stopped));
    assert_eq!(diary.read(), ["quick up", "quick down"]);
    assert!(!report.is_clean());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_owner_that_blocks_its_thread_is_left_and_the_others_are_stopped() {
    let diary = Diary::default();
    let grace = Duration::from_millis(400);
    let Blocker { owner, blocks, release } =
        blocking("blocker", grace, |_| tokio::task::yield_now());
    let supervisor = Supervisor::new()
        .owner(steady("a", &diary).grace(Duration::from_secs(20)))
        .owner(owner)
        .owner(steady("c", &diary).grace(Duration::from_secs(20)));
    let tree = supervisor.start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    soon("the block", blocks.notified()).await;
    let report = soon("the stop", tree.stop()).await;
    assert!(matches!(report.owner("blocker").unwrap().end, OwnerEnd::Left), "{report:?}");
    assert!(report.took >= grace, "it had its grace");
    assert_eq!(diary.read(), ["a up", "c up", "c down", "a down"]);
    drop(release);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_owner_that_blocks_its_thread_and_is_killed_ends_the_tree() {
    let diary = Diary::default();
    let grace = Duration::from_millis(200);
    let Blocker { owner, blocks, release } =
        blocking("blocker", grace, |_| tokio::task::yield_now());
    let tree = Supervisor::new().owner(steady("a", &diary)).owner(owner).start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    soon("the block", blocks.notified()).await;
    assert_eq!(tree.kill("blocker").await, Killed::Aborted);
    let gave_up = soon("the end", tree.ended()).await.unwrap_err();
    assert_eq!(&*gave_up.owner, "blocker");
    assert!(matches!(gave_up.failure, OwnerFailure::Stuck), "{gave_up:?}");
    let report = tree.stop().await;
    assert!(matches!(report.owner("blocker").unwrap().end, OwnerEnd::Left), "{report:?}");
    assert_eq!(report.owner("blocker").unwrap().restarts, 0, "never two of it at once");
    assert_eq!(diary.read(), ["a up", "a down"]);
    drop(release);
}

/// The runtime's timers stand still then: the blocked thread was the one that ran them.
#[test]
fn an_owner_that_a_timer_wakes_and_that_blocks_its_thread_is_left() {
    let runtime = Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
    let diary = Diary::default();
    let grace = Duration::from_millis(400);
    let Blocker { owner, release, .. } = blocking("blocker", grace, move |context| async move {
        context.stopping().cancelled().await;
        tokio::time::sleep(grace / 8).await;
    });
    let (reports, reported) = mpsc::channel();
    let steady = steady("a", &diary);
    runtime.spawn(async move {
        let tree = Supervisor::new().owner(steady).owner(owner).start().unwrap();
        tree.ready().await.unwrap();
        reports.send(tree.stop().await).unwrap();
    });
    // A wait in the runtime would be by those timers.
    let report = reported.recv_timeout(PATIENCE);
    drop(release);
    let report = report.expect("the stop is over");
    assert!(matches!(report.owner("blocker").unwrap().end, OwnerEnd::Left), "{report:?}");
    assert!(report.took >= grace, "it had its grace");
    assert_eq!(diary.read(), ["a up", "a down"]);
}

#[tokio::test]
async fn a_stop_during_the_start_leaves_the_rest_unstarted() {
    let diary = Diary::default();
    let never_ready = Owner::new("never-ready", |context| async move {
        context.stopping().cancelled().await;
        Ok(())
    });
    let tree = Supervisor::new()
        .owner(steady("a", &diary))
        .owner(never_ready)
        .owner(steady("c", &diary))
        .start()
        .unwrap();
    until(&tree, "the second start", |status| {
        status.owner("never-ready").unwrap().phase == OwnerPhase::Starting
    })
    .await;
    let report = soon("the stop", tree.stop()).await;
    assert!(matches!(report.owner("c").unwrap().end, OwnerEnd::NotRunning), "{report:?}");
    assert!(report.is_clean());
    assert_eq!(diary.read(), ["a up", "a down"]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_between_two_starts_starts_nobody() {
    let diary = Diary::default();
    let broken = failing("broken", 99, &diary, |_| async { Err(OwnerError::new("again")) });
    let tree =
        Supervisor::new().intensity(99, Duration::from_secs(99)).owner(broken).start().unwrap();
    until(&tree, "a pause", |status| {
        let owner = status.owner("broken").unwrap();
        owner.phase == OwnerPhase::Restarting && owner.restarts == 3
    })
    .await;
    let report = soon("the stop", tree.stop()).await;
    assert!(matches!(report.owner("broken").unwrap().end, OwnerEnd::NotRunning), "{report:?}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(diary.count("broken up"), 3);
}

#[tokio::test]
async fn who_fails_while_the_tree_stops_is_not_restarted() {
    let diary = Diary::default();
    let (fail, failed) = tokio::sync::oneshot::channel::<()>();
    let failed = Mutex::new(Some(failed));
    let first = Owner::new("first", move |context| {
        let failed = failed.lock().unwrap().take();
        async move {
            context.ready();
            let _ = failed.expect("started once").await;
            Err(OwnerError::new("while the last one stops"))
        }
    });
    let fail = Arc::new(Mutex::new(Some(fail)));
    let diary_too = diary.clone();
    let last = Owner::new("last", move |context| {
        let (fail, diary) = (Arc::clone(&fail), diary_too.clone());
        async move {
            context.ready();
            context.stopping().cancelled().await;
            // The first one fails now, before it is told.
            drop(fail.lock().unwrap().take());
            tokio::time::sleep(Duration::from_millis(50)).await;
            diary.note("last down");
            panic!("at the very end");
        }
    });
    let tree = Supervisor::new().owner(first).owner(last).start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    let report = soon("the stop", tree.stop()).await;
    let end = |name: &str| report.owner(name).unwrap().end.clone();
    assert!(matches!(end("first"), OwnerEnd::Failed(OwnerFailure::Failed(_))), "{report:?}");
    assert!(matches!(end("last"), OwnerEnd::Failed(OwnerFailure::Panicked(_))), "{report:?}");
    assert_eq!(report.owner("first").unwrap().restarts, 0);
    assert_eq!(diary.read(), ["last down"]);
}
