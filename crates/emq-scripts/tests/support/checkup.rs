//! A queue's checkup, driven to its end.

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{Checkup, CheckupOptions, CheckupStep, Diagnosis, Examined, Fenced, Nudge};

/// Long enough for a worker that is on its way, short enough for a test.
const WAKE_PATIENCE: Duration = Duration::from_millis(20);

/// Everything that a checkup finds.
pub(crate) async fn checkup(fenced: &Fenced, keys: &QueueKeys, repair: bool) -> Vec<Diagnosis> {
    checkup_counted(fenced, keys, repair).await.0
}

/// Lets the doctor say that nothing is out of order.
pub(crate) async fn healthy(fenced: &Fenced, keys: &QueueKeys) {
    let found = checkup(fenced, keys, false).await;
    assert!(found.is_empty(), "the doctor finds {found:#?}");
}

/// The same of a queue whose wake the test took away: a token is put back first.
pub(crate) async fn healthy_once_nudged(fenced: &Fenced, keys: &QueueKeys) {
    fenced.call(keys, &Nudge).await.unwrap();
    healthy(fenced, keys).await;
}

/// Everything that a checkup finds, and how much was looked at.
pub(crate) async fn checkup_counted(
    fenced: &Fenced,
    keys: &QueueKeys,
    repair: bool,
) -> (Vec<Diagnosis>, Examined) {
    let options = CheckupOptions { repair, wake_patience: WAKE_PATIENCE };
    let mut checkup = Checkup::new(keys.clone(), options);
    let mut found = Vec::new();
    while let Some(step) = checkup.next(fenced.bundle()) {
        match step {
            CheckupStep::Send(cmd) => {
                let reply = fenced.connection().command(cmd).await.unwrap();
                found.extend(checkup.answer(reply).unwrap());
            }
            CheckupStep::Wait(time) => tokio::time::sleep(time).await,
        }
    }
    (found, checkup.examined())
}
