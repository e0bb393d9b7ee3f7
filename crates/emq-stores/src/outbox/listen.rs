//! Hearing of commits.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::shelf::Shelf;

/// Between attempts to listen; the sweep finds everything meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

type Attempt = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How a relay hears of commits that other processes, or other parts of this one, make.
///
/// sqlx listens on a connection of its own pool. deadpool's pool hands no notifications out, so
/// tokio-postgres needs a connection beside it. SQLite tells other processes nothing: there the
/// sweep finds what is committed, and [`Relay::wake`](super::Relay::wake) is for the program's own
/// commits.
#[derive(Clone)]
pub(super) struct Listen(Option<Arc<dyn Fn(Arc<Notify>) -> Attempt + Send + Sync>>);

impl Listen {
    /// What the database offers by itself.
    pub(super) fn of(shelf: &Shelf) -> Listen {
        match shelf {
            #[cfg(feature = "sqlx")]
            Shelf::Postgres(crate::postgres::Postgres::Sqlx(pool)) => {
                let pool = pool.clone();
                Listen(Some(Arc::new(move |wake| Box::pin(through_sqlx(pool.clone(), wake)))))
            }
            #[allow(unreachable_patterns)] // Where sqlx is the only feature.
            _ => Listen(None),
        }
    }

    /// A connection of tokio-postgres of its own.
    #[cfg(feature = "tokio-postgres")]
    pub(super) fn tokio<T>(config: tokio_postgres::Config, tls: T) -> Listen
    where
        T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
        T: Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<tokio_postgres::Socket>>::Future: Send,
    {
        Listen(Some(Arc::new(move |wake| {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                if let Ok((client, connection)) = config.connect(tls).await {
                    through_tokio(client, connection, &wake).await;
                }
            })
        })))
    }

    /// Wakes the relay at each commit that the database tells of. It never ends.
    pub(super) async fn run(&self, wake: &Arc<Notify>) -> Infallible {
        let Some(attempt) = &self.0 else { return std::future::pending().await };
        loop {
            attempt(Arc::clone(wake)).await;
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Listens until the connection can't be had any more.
#[cfg(feature = "sqlx")]
async fn through_sqlx(pool: sqlx::PgPool, wake: Arc<Notify>) {
    if let Ok(mut listener) = sqlx::postgres::PgListener::connect_with(&pool).await
        && listener.listen(super::postgres::CHANNEL).await.is_ok()
    {
        // What was committed before it listened, or while the connection was lost (`None`).
        wake.notify_one();
        while listener.try_recv().await.is_ok() {
            wake.notify_one();
        }
    }
}

/// Listens until the connection is lost. The client is kept for as long: without it the connection
/// ends.
#[cfg(feature = "tokio-postgres")]
async fn through_tokio<S>(
    client: tokio_postgres::Client,
    mut connection: tokio_postgres::Connection<tokio_postgres::Socket, S>,
    wake: &Notify,
) where
    S: tokio_postgres::tls::TlsStream + Unpin,
{
    let statement = format!("LISTEN {}", super::postgres::CHANNEL);
    let listening = async {
        if client.batch_execute(&statement).await.is_ok() {
            // What was committed before it listened.
            wake.notify_one();
            std::future::pending::<()>().await;
        }
    };
    let hearing = async {
        while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            if matches!(message, tokio_postgres::AsyncMessage::Notification(_)) {
                wake.notify_one();
            }
        }
    };
    tokio::select! {
        () = listening => {}
        () = hearing => {}
    }
}
