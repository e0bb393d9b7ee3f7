//! What the supervisor's tests share.
#![allow(dead_code)] // Each test binary uses a part of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use emq_stores::supervisor::{Owner, OwnerContext, OwnerError, OwnerPhase, Tree, TreeStatus};

/// Only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What must come soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("{what} did not come within {PATIENCE:?}"))
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    pub(crate) fn note(&self, words: impl Into<String>) {
        self.0.lock().unwrap().push(words.into());
    }

    pub(crate) fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, words: &str) -> usize {
        self.read().iter().filter(|line| *line == words).count()
    }
}

/// An owner that notes its start and its end, and ends when it is told to.
pub(crate) fn steady(name: &'static str, diary: &Diary) -> Owner {
    let diary = diary.clone();
    Owner::new(name, move |context| {
        let diary = diary.clone();
        async move {
            diary.note(format!("{name} up"));
            context.ready();
            context.stopping().cancelled().await;
            diary.note(format!("{name} down"));
            Ok(())
        }
    })
}

/// An owner that is ready, and then fails in some way for its first `times` starts.
pub(crate) fn failing<F, Fut>(name: &'static str, times: usize, diary: &Diary, fail: F) -> Owner
where
    F: Fn(OwnerContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), OwnerError>> + Send + 'static,
{
    let diary = diary.clone();
    Owner::new(name, move |context: OwnerContext| {
        diary.note(format!("{name} up"));
        let fails = diary.count(&format!("{name} up")) <= times;
        context.ready();
        let failing = fail(context.clone());
        async move {
            if fails {
                return failing.await;
            }
            context.stopping().cancelled().await;
            Ok(())
        }
    })
}

/// Waits until the tree looks so.
pub(crate) async fn until(tree: &Tree, what: &str, so: impl FnMut(&TreeStatus) -> bool) {
    let mut status = tree.status();
    soon(what, async { drop(status.wait_for(so).await.unwrap()) }).await;
}

/// Waits until an owner runs again after so many restarts.
pub(crate) async fn runs_again(tree: &Tree, name: &str, restarts: u64) {
    until(tree, &format!("restart {restarts} of {name}"), |status| {
        let owner = status.owner(name).unwrap();
        owner.phase == OwnerPhase::Running && owner.restarts == restarts
    })
    .await;
}
