//! Owners of a few kinds: a worker, a service that runs by a token, a store, a tree.

use std::sync::Arc;
use std::time::Duration;

use emq_core::{Phase, Worker};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::context::OwnerContext;
use super::failure::OwnerError;
use super::owner::Owner;
use super::tree::Supervisor;
use crate::store::Store;

/// The most time that an owner keeps for itself at the end of its grace; at most a quarter is.
const OWN_SHARE_MAX: Duration = Duration::from_millis(250);

impl Owner {
    /// A worker, started anew by `start` at each start. It is ready at once.
    ///
    /// A worker that can't go on ([`Phase::Failed`]) crashes its owner. A handler's failure doesn't:
    /// that is its job's. Told to stop, the worker drains within the owner's grace, and its report
    /// is kept. A killed owner drops its worker where it stands: leases end, and another worker or
    /// the next start gets the jobs.
    ///
    /// ```no_run
    /// use emq_core::{Bus, Job, Worker};
    /// use emq_stores::supervisor::{Owner, Supervisor};
    ///
    /// # async fn example(bus: Bus) -> Result<(), Box<dyn std::error::Error>> {
    /// let mails = bus.queue("mails")?.typed::<String>();
    /// let tree = Supervisor::new()
    ///     .owner(Owner::worker("mails", move |_context| {
    ///         let mails = mails.clone();
    ///         async move {
    ///             let worker = Worker::builder(&mails).handler(|job: Job<String>| async move {
    ///                 println!("to {}", job.payload);
    ///                 Ok(())
    ///             });
    ///             Ok(worker.start()?)
    ///         }
    ///     }))
    ///     .start()?;
    /// tree.ready().await?;
    /// // ... until the process is told to end:
    /// let report = tree.stop().await;
    /// # Ok(()) }
    /// ```
    pub fn worker<F, Fut>(name: impl Into<Arc<str>>, start: F) -> Owner
    where
        F: Fn(OwnerContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Worker, OwnerError>> + Send + 'static,
    {
        Owner::new(name, move |context| {
            let starting = start(context.clone());
            async move {
                let worker = starting.await?;
                context.ready();
                tend(worker, &context).await
            }
        })
    }

    /// What runs until its token fires, such as a relay. It is ready at once.
    pub fn service<F, Fut, E>(name: impl Into<Arc<str>>, run: F) -> Owner
    where
        F: Fn(CancellationToken) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<OwnerError>,
    {
        Owner::new(name, move |context| {
            context.ready();
            let running = run(context.stopping().clone());
            async move { running.await.map_err(Into::into) }
        })
    }

    /// What serves until it is dropped, such as the owner of a store in memory: it is ready at
    /// once, and dropped when it shall stop.
    ///
    /// ```no_run
    /// use emq_keys::namespace;
    /// use emq_stores::{memory::Memory, supervisor::Owner};
    ///
    /// let (memory, rows) = Memory::open(namespace!("ORD"));
    /// let orders = Owner::serving("orders", move || rows.clone().run());
    /// ```
    pub fn serving<F, Fut>(name: impl Into<Arc<str>>, serve: F) -> Owner
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Owner::new(name, move |context| {
            context.ready();
            let serving = serve();
            async move {
                tokio::select! {
                    () = serving => {}
                    () = context.stopping().cancelled() => {}
                }
                Ok(())
            }
        })
    }

    /// A store that serves by itself, such as a database: it is ready once it has answered, so that
    /// what uses it starts after that and stops before the end.
    pub fn store<R>(name: impl Into<Arc<str>>, store: Store<R>) -> Owner
    where
        R: Serialize + DeserializeOwned + Send + 'static,
    {
        Owner::new(name, move |context| {
            let store = store.clone();
            async move {
                store.horizon().await?;
                context.ready();
                context.stopping().cancelled().await;
                Ok(())
            }
        })
    }

    /// A tree in a tree: it is ready when all its owners are, and one that gives up is restarted
    /// whole. Its grace is the sum of its owners' and a little more.
    #[must_use]
    pub fn tree(name: impl Into<Arc<str>>, supervisor: Supervisor) -> Owner {
        let grace = supervisor.grace() + OWN_SHARE_MAX;
        let supervisor = Arc::new(supervisor);
        Owner::new(name, move |context| {
            let supervisor = Arc::clone(&supervisor);
            async move {
                let tree = supervisor.start()?;
                tokio::select! {
                    ready = tree.ready() => ready?,
                    () = context.stopping().cancelled() => {}
                }
                context.ready();
                tokio::select! {
                    ended = tree.ended() => return Ok(ended?),
                    () = context.stopping().cancelled() => {}
                }
                let report = tree.stop().await;
                match report.is_clean() {
                    true => Ok(()),
                    false => Err(OwnerError::new(format!("it did not stop cleanly: {report:?}"))),
                }
            }
        })
        .grace(grace)
    }
}

/// Watches a worker until it fails or shall stop.
async fn tend(worker: Worker, context: &OwnerContext) -> Result<(), OwnerError> {
    let mut status = worker.status();
    let failed = async move {
        drop(status.wait_for(|status| status.phase == Phase::Failed).await);
    };
    tokio::select! {
        () = context.stopping().cancelled() => {
            let share = (context.grace() / 4).min(OWN_SHARE_MAX);
            context.keep_worker_report(worker.stop(context.grace() - share).await);
            Ok(())
        }
        () = failed => {
            Err(worker.error().map_or_else(|| OwnerError::new("the worker ended"), OwnerError::new))
        }
    }
}
