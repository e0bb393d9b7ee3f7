//! Hearing of commits.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::Notify;

use super::shelf::Shelf;

/// Wakes the relay at each commit that the database tells of. It never ends.
///
/// sqlx listens on a connection of its own pool. deadpool's pool hands no notifications out, and
/// SQLite tells other processes nothing: there the sweep finds what is committed, and
/// [`Relay::wake`](super::Relay::wake) is for the program's own commits.
pub(super) async fn listen(shelf: &Shelf, wake: Arc<Notify>) -> Infallible {
    match shelf {
        #[cfg(feature = "sqlx")]
        Shelf::Postgres(crate::postgres::Postgres::Sqlx(pool)) => hear(pool, &wake).await,
        #[allow(unreachable_patterns)]
        _ => {
            drop(wake);
            super::relay::silence().await
        }
    }
}

#[cfg(feature = "sqlx")]
async fn hear(pool: &sqlx::PgPool, wake: &Notify) -> Infallible {
    /// Between attempts to listen; the sweep finds everything meanwhile.
    const AGAIN: std::time::Duration = std::time::Duration::from_secs(1);
    loop {
        if let Ok(mut listener) = sqlx::postgres::PgListener::connect_with(pool).await
            && listener.listen(super::postgres::CHANNEL).await.is_ok()
        {
            // What was committed before it listened, or while the connection was lost (`None`).
            wake.notify_one();
            while listener.try_recv().await.is_ok() {
                wake.notify_one();
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
