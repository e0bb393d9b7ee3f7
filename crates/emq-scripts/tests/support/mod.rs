//! What the tests of this crate share.

// Each test binary uses a part of it.
#![allow(dead_code)]

pub(crate) mod checkup;
pub(crate) mod ground;
pub(crate) mod keyspace;
pub(crate) mod samples;

use std::sync::Arc;
use std::time::Duration;

use emq_keys::{BrandedId, Namespace, QueueKeys, QueueName};
use emq_scripts::{Bundle, FenceOptions, Fenced};
use emq_testkit::Valkey;
use emq_wire::{Cmd, Config, Connection, Reply};

/// The `n`th job id of a fixed, rising row of them.
pub(crate) fn job(n: u64) -> BrandedId {
    branded("JOB", n)
}

/// The `n`th lane.
pub(crate) fn lane(n: u64) -> BrandedId {
    branded("TEN", n)
}

/// An id of any kind.
pub(crate) fn branded(namespace: &str, n: u64) -> BrandedId {
    BrandedId::encode(Namespace::new(namespace).unwrap(), (1_000_000 + n) << 22).unwrap()
}

/// The keys of a queue.
pub(crate) fn queue(name: &str) -> QueueKeys {
    QueueKeys::new(QueueName::new(name).unwrap())
}

/// A fenced connection with short waits, so that a refusal which is tried again ends soon.
pub(crate) async fn fenced(valkey: &Valkey) -> Fenced {
    let options = match bundle_to_judge() {
        Some(bundle) => FenceOptions::default().bundle(bundle),
        None => FenceOptions::default(),
    };
    Fenced::connect(config(valkey), options).await.unwrap()
}

/// The bundle in the folder that `EMQ_BUNDLE` names: `cargo xtask mutants` breaks one there and
/// wants a test to fail.
pub(crate) fn bundle_to_judge() -> Option<Arc<Bundle>> {
    let folder = std::env::var_os("EMQ_BUNDLE")?;
    Some(Bundle::from_dir(folder).expect("EMQ_BUNDLE names the folder of a bundle"))
}

/// The configuration for a server.
pub(crate) fn config(valkey: &Valkey) -> Config {
    valkey.url().parse().unwrap()
}

/// One plain command, which must not be refused.
pub(crate) async fn ask(connection: &Connection, words: &[&str]) -> Reply {
    let cmd = words[1..].iter().fold(Cmd::new(words[0]), Cmd::arg);
    connection.command(cmd).await.unwrap().into_result().unwrap()
}

/// The server's clock, unix milliseconds.
pub(crate) async fn server_ms(connection: &Connection) -> i64 {
    let time = ask(connection, &["TIME"]).await;
    let number = |at: usize| -> i64 {
        let bytes = time.as_array().unwrap()[at].as_bytes().unwrap();
        std::str::from_utf8(bytes).unwrap().parse().unwrap()
    };
    number(0) * 1000 + number(1) / 1000
}

/// Far longer than anything here takes; a test that waits this long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something that must come.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it never came")
}
