//! The work, the same for every client.

use std::error::Error;
use std::time::{Duration, Instant};

/// What went wrong, in words.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Commands of one pipeline.
pub(crate) const DEPTH: usize = 100;
/// Tasks that share a client.
pub(crate) const TASKS: usize = 64;
/// What is set, and to what: as long as the server's benchmark tool sends them.
pub(crate) const KEY: &str = "key:000000000000";
pub(crate) const VALUE: &str = "xxx";

/// One client of the field.
pub(crate) trait Client: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    const VERSION: &'static str;

    fn connect(url: &str) -> impl Future<Output = Result<Self, Failure>>;

    /// One SET, awaited.
    fn set(&self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// A pipeline of `depth` SETs, awaited whole.
    fn pipeline(&self, depth: usize) -> impl Future<Output = Result<(), Failure>>;
}

/// `n` SETs in pipelines, one after the other.
pub(crate) async fn pipelined<C: Client>(client: &C, n: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    for _ in 0..n / DEPTH {
        client.pipeline(DEPTH).await?;
    }
    Ok(begun.elapsed())
}

/// `n` SETs from tasks that batch nothing by hand.
pub(crate) async fn shared<C: Client>(client: &C, n: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..n / TASKS {
                    client.set().await?;
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(begun.elapsed())
}
