//! A queue's checkup, driven to its end.

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{Checkup, CheckupOptions, CheckupStep, Diagnosis, Examined, Fenced};

/// Long enough for a worker that is on its way, short enough for a test.
const WAKE_PATIENCE: Duration = Duration::from_millis(20);

/// Everything that a checkup finds.
pub(crate) async fn checkup(fenced: &Fenced, keys: &QueueKeys, repair: bool) -> Vec<Diagnosis> {
    checkup_counted(fenced, keys, repair).await.0
}

/// The same, and how much was looked at.
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
