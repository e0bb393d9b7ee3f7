//! Connections: so many at once, each for so long, and a gentle end.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Semaphore;

use super::site::Site;
use crate::exit::Failure;

/// How many connections are served at once; further ones wait to be accepted.
const CONNECTIONS: usize = 128;
/// How long a client may take to send a request's head.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection may be kept.
const CONNECTION_LIVES: Duration = Duration::from_secs(300);
/// How long requests under way may take at the end.
const GRACE: Duration = Duration::from_secs(5);
/// How large the head of a request may be, in bytes.
const HEAD_BYTES: usize = 16 * 1024;

/// Serves until a signal asks for the end; then what is under way is answered.
pub(super) async fn serve(
    listener: TcpListener,
    site: Arc<Site>,
    end: &mut End,
) -> Result<(), Failure> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            () = end.come() => break,
        };
        let Some((stream, place)) = accepted else { continue };
        let site = Arc::clone(&site);
        let service = service_fn(move |request| {
            let site = Arc::clone(&site);
            async move { Ok::<_, Infallible>(site.answer(&request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // What a client does wrong is its own loss.
            let _ = tokio::time::timeout(CONNECTION_LIVES, connection).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
    Ok(())
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(_) => {
            // Out of file handles, or a client that left at once: not this program's end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// The signals that ask for the end.
pub(super) struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl End {
    pub(super) fn hear() -> Result<End, Failure> {
        let of = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("can't hear signals: {error}")))
        };
        Ok(End { terminate: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())? })
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
