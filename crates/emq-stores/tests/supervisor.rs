//! A tree of owners: starts in order, restarts alone, gives up in time.

mod supervisor_support;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use emq_stores::supervisor::{
    GaveUp, Killed, Owner, OwnerEnd, OwnerError, OwnerFailure, OwnerPhase, Restart, Supervisor,
    Tree, TreeError,
};
use supervisor_support::{Diary, failing, runs_again, soon, steady, until};
use tokio::sync::Notify;
use tokio::time::Instant;

#[tokio::test]
async fn each_owner_starts_when_the_one_before_it_is_ready_and_they_stop_in_reverse() {
    let diary = Diary::default();
    let (open, opened) = (Arc::new(Notify::new()), diary.clone());
    let gate = Arc::clone(&open);
    let slow = Owner::new("slow", move |context| {
        let (gate, diary) = (Arc::clone(&gate), opened.clone());
        async move {
            diary.note("slow up");
            gate.notified().await;
            diary.note("slow ready");
            context.ready();
            context.stopping().cancelled().await;
            diary.note("slow down");
            Ok(())
        }
    });
    let supervisor =
        Supervisor::new().owner(steady("a", &diary)).owner(slow).owner(steady("c", &diary));
    let tree = supervisor.start().unwrap();
    until(&tree, "the slow one's start", |s| {
        s.owner("slow").unwrap().phase == OwnerPhase::Starting
    })
    .await;
    let status = tree.status().borrow().clone();
    assert_eq!(status.owner("c").unwrap().phase, OwnerPhase::Waiting);
    assert!(!status.ready);
    open.notify_one();
    soon("the tree", tree.ready()).await.unwrap();
    let report = soon("the stop", tree.stop()).await;
    assert_eq!(
        diary.read(),
        ["a up", "slow up", "slow ready", "c up", "c down", "slow down", "a down"]
    );
    assert!(report.is_clean(), "{report:?}");
    assert!(report.owners.iter().all(|owner| matches!(owner.end, OwnerEnd::Stopped)));
}

#[tokio::test]
async fn an_owner_that_fails_in_any_way_is_restarted_alone() {
    let diary = Diary::default();
    let supervisor = Supervisor::new()
        .owner(steady("before", &diary))
        .owner(failing("errs", 1, &diary, |_| async { Err(OwnerError::new("the disk is full")) }))
        .owner(failing("panics", 1, &diary, |_| async { panic!("no such {}", "luck") }))
        .owner(failing("ends", 1, &diary, |_| async { Ok(()) }))
        .owner(failing("crashes", 1, &diary, |context| async move {
            // From another task, as a handler would.
            tokio::spawn({
                let context = context.clone();
                async move { context.crash(OwnerError::new("the contract is broken")) }
            });
            std::future::pending().await
        }))
        .owner(steady("after", &diary));
    let tree = supervisor.start().unwrap();
    for name in ["errs", "panics", "ends", "crashes"] {
        runs_again(&tree, name, 1).await;
    }
    let status = tree.status().borrow().clone();
    let failure = |name: &str| status.owner(name).unwrap().last_failure.clone().unwrap();
    let OwnerFailure::Failed(cause) = failure("errs") else { panic!("{:?}", failure("errs")) };
    assert_eq!(cause.to_string(), "the disk is full");
    let OwnerFailure::Panicked(words) = failure("panics") else { panic!("{status:?}") };
    assert_eq!(words, "no such luck");
    assert!(matches!(failure("ends"), OwnerFailure::Ended));
    let OwnerFailure::Failed(cause) = failure("crashes") else { panic!("{status:?}") };
    assert_eq!(cause.to_string(), "the contract is broken");

    soon("the tree", tree.ready()).await.unwrap();
    let report = soon("the stop", tree.stop()).await;
    assert!(report.is_clean(), "{report:?}");
    for alone in ["before", "after"] {
        assert_eq!(diary.count(&format!("{alone} up")), 1, "{alone} was restarted too");
        assert_eq!(report.owner(alone).unwrap().restarts, 0);
    }
}

#[tokio::test]
async fn a_killed_owner_is_dropped_where_it_stands_and_restarted_alone() {
    struct Dropped(Diary);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.note("victim dropped");
        }
    }
    let diary = Diary::default();
    let told = diary.clone();
    let victim = Owner::new("victim", move |context| {
        let held = Dropped(told.clone());
        async move {
            let held = held;
            held.0.note("victim up");
            context.ready();
            std::future::pending::<()>().await;
            Ok(())
        }
    })
    .grace(Duration::from_millis(50));
    let tree = Supervisor::new().owner(steady("other", &diary)).owner(victim).start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    assert_eq!(tree.kill("victim").await, Killed::Aborted);
    runs_again(&tree, "victim", 1).await;
    assert_eq!(diary.read(), ["other up", "victim up", "victim dropped", "victim up"]);
    let last = tree.status().borrow().owner("victim").unwrap().last_failure.clone();
    assert!(matches!(last, Some(OwnerFailure::Killed)), "{last:?}");
    assert_eq!(tree.kill("nobody").await, Killed::Unknown);
    drop(tree.stop().await);
}

#[tokio::test]
async fn policies_say_which_ends_are_followed_by_a_restart() {
    let diary = Diary::default();
    let done = failing("done", 1, &diary, |_| async { Ok(()) }).restart(Restart::Transient);
    let tried = failing("tried", 1, &diary, |_| async { Err(OwnerError::new("once")) })
        .restart(Restart::Transient);
    let once = failing("once", 9, &diary, |_| async { panic!("for good") });
    let tree = Supervisor::new()
        .owner(done)
        .owner(tried)
        .owner(once.restart(Restart::Temporary))
        .start()
        .unwrap();
    runs_again(&tree, "tried", 1).await;
    until(&tree, "the ends", |s| {
        ["done", "once"].iter().all(|name| s.owner(name).unwrap().phase == OwnerPhase::Ended)
    })
    .await;
    assert_eq!(tree.kill("once").await, Killed::NotRunning);
    let report = soon("the stop", tree.stop()).await;
    assert!(matches!(report.owner("done").unwrap().end, OwnerEnd::Finished), "{report:?}");
    assert!(matches!(
        report.owner("once").unwrap().end,
        OwnerEnd::Failed(OwnerFailure::Panicked(_))
    ));
    assert_eq!(
        (diary.count("done up"), diary.count("tried up"), diary.count("once up")),
        (1, 2, 1)
    );
}

#[tokio::test]
async fn a_tree_whose_owners_are_all_done_has_ended() {
    let diary = Diary::default();
    let done = failing("done", 1, &diary, |_| async { Ok(()) }).restart(Restart::Transient);
    let tree = Supervisor::new().owner(done).start().unwrap();
    soon("the end", tree.ended()).await.unwrap();
    assert!(soon("the stop", tree.stop()).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn one_restart_too_many_stops_the_tree_in_reverse_and_names_the_owner() {
    let diary = Diary::default();
    let broken = failing("broken", 99, &diary, |_| async { Err(OwnerError::new("no table")) });
    let tree = Supervisor::new()
        .intensity(3, Duration::from_secs(10))
        .owner(steady("a", &diary))
        .owner(steady("b", &diary))
        .owner(broken)
        .start()
        .unwrap();
    let gave_up = soon("the end", tree.ended()).await.unwrap_err();
    assert_eq!(&*gave_up.owner, "broken");
    assert_eq!(causes(&gave_up), ["it failed", "no table"]);
    assert!(gave_up.to_string().contains("broken"), "{gave_up}");
    assert_eq!(
        diary.read(),
        ["a up", "b up", "broken up", "broken up", "broken up", "broken up", "b down", "a down"]
    );
    assert_eq!(tree.kill("a").await, Killed::NotRunning, "there is nobody left");
    let report = soon("the stop", tree.stop()).await;
    assert!(!report.is_clean() && report.gave_up.is_some());
    assert_eq!(report.owner("broken").unwrap().restarts, 3);
}

fn causes(error: &GaveUp) -> Vec<String> {
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(next) = cause {
        causes.push(next.to_string());
        cause = next.source();
    }
    causes
}

#[tokio::test(start_paused = true)]
async fn restarts_that_are_further_apart_than_the_window_go_on() {
    let diary = Diary::default();
    let now_and_then = failing("now-and-then", 20, &diary, |_| async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        Err(OwnerError::new("again"))
    });
    let tree = Supervisor::new()
        .intensity(2, Duration::from_secs(10))
        .owner(now_and_then)
        .start()
        .unwrap();
    // Twenty restarts, never three within ten seconds.
    let began = Instant::now();
    let mut status = tree.status();
    let so = |s: &emq_stores::supervisor::TreeStatus| s.owners[0].restarts == 20;
    let ended = tokio::select! {
        _ = status.wait_for(so) => None,
        ended = tree.ended() => Some(ended),
    };
    assert!(ended.is_none(), "{ended:?}");
    assert!(began.elapsed() >= Duration::from_secs(120));
    assert!(soon("the stop", tree.stop()).await.is_clean());
}

#[tokio::test(start_paused = true)]
async fn pauses_between_restarts_double_up_to_a_second() {
    let diary = Diary::default();
    let starts = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&starts);
    let broken = failing("broken", 12, &diary, move |_| {
        noted.lock().unwrap().push(Instant::now());
        async { Err(OwnerError::new("again")) }
    });
    let tree =
        Supervisor::new().intensity(99, Duration::from_secs(999)).owner(broken).start().unwrap();
    runs_again(&tree, "broken", 12).await;
    let starts = starts.lock().unwrap().clone();
    let pauses: Vec<u128> = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000, 1000]);
    drop(tree.stop().await);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_not_ready_in_time_is_restarted() {
    let diary = Diary::default();
    let told = diary.clone();
    let late = Owner::new("late", move |context| {
        let diary = told.clone();
        async move {
            diary.note("late up");
            if diary.count("late up") == 2 {
                context.ready();
            }
            context.stopping().cancelled().await;
            Ok(())
        }
    })
    .ready_within(Duration::from_millis(700));
    let began = Instant::now();
    let tree = Supervisor::new().owner(late).owner(steady("next", &diary)).start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    assert_eq!(began.elapsed().as_millis(), 710, "the time it had, and the first pause");
    assert_eq!(diary.read(), ["late up", "late up", "next up"]);
    let last = tree.status().borrow().owner("late").unwrap().last_failure.clone();
    assert!(matches!(last, Some(OwnerFailure::NotReady(_))), "{last:?}");
    assert!(tree.stop().await.is_clean());
}

#[tokio::test]
async fn a_tree_is_not_started_from_a_wrong_description() {
    let diary = Diary::default();
    assert_eq!(Supervisor::new().start().unwrap_err(), TreeError::NoOwner);
    let twins = Supervisor::new().owner(steady("twin", &diary)).owner(steady("twin", &diary));
    assert_eq!(twins.start().unwrap_err(), TreeError::SameName("twin".into()));
    assert!(diary.read().is_empty(), "nobody was started");
}

#[tokio::test(start_paused = true)]
async fn a_tree_in_a_tree_restarts_its_own_and_is_restarted_whole_when_it_gives_up() {
    let diary = Diary::default();
    let frail = failing("frail", 3, &diary, |_| async { Err(OwnerError::new("frail")) });
    let inner = Supervisor::new()
        .intensity(1, Duration::from_secs(60))
        .owner(steady("inside", &diary))
        .owner(frail);
    let tree = Supervisor::new()
        .owner(steady("outside", &diary))
        .owner(Owner::tree("branch", inner))
        .owner(steady("last", &diary))
        .start()
        .unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    runs_again(&tree, "branch", 1).await;
    // The time is paused, so that a sleep costs nothing and lets everyone else come first.
    let fourth = async {
        while diary.count("frail up") < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon("the fourth start", fourth).await;
    // Twice alone, once with the whole branch.
    assert_eq!((diary.count("inside up"), diary.count("inside down")), (2, 1));
    assert_eq!((diary.count("outside up"), diary.count("last up")), (1, 1));
    let last = tree.status().borrow().owner("branch").unwrap().last_failure.clone();
    let Some(OwnerFailure::Failed(cause)) = last else { panic!("{last:?}") };
    assert!(cause.downcast_ref::<GaveUp>().is_some_and(|gave_up| &*gave_up.owner == "frail"));
    let report = soon("the stop", tree.stop()).await;
    assert!(report.is_clean(), "{report:?}");
    let last_words: Vec<String> = diary.read().into_iter().rev().take(3).collect();
    assert_eq!(last_words, ["outside down", "inside down", "last down"]);
}

#[tokio::test]
async fn a_dropped_tree_takes_its_owners_along() {
    let diary = Diary::default();
    let (held, gone) = tokio::sync::oneshot::channel::<()>();
    let held = std::sync::Mutex::new(Some(held));
    let owner = Owner::new("owner", move |context| {
        let held = held.lock().unwrap().take();
        async move {
            let _held = held;
            context.ready();
            std::future::pending().await
        }
    });
    let tree: Tree = Supervisor::new().owner(steady("a", &diary)).owner(owner).start().unwrap();
    soon("the tree", tree.ready()).await.unwrap();
    drop(tree);
    assert!(soon("the owner's end", gone).await.is_err(), "dropped, not told");
    assert_eq!(diary.read(), ["a up"], "nobody was told to stop");
}
