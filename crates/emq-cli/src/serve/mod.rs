//! `emq serve`: metrics, health and a read-only console over HTTP.
//!
//! [`link`] keeps the bus, [`watcher`] reads it at most once a second however many ask, [`site`]
//! answers requests with [`metrics`] and [`pages`], and [`listen`] serves connections within
//! bounds.

mod answer;
mod console;
mod link;
mod listen;
mod metrics;
mod pages;
mod site;
mod watcher;

use std::net::SocketAddr;

use emq_keys::QueueName;
use tokio::net::TcpListener;

use self::link::Link;
use self::site::Site;
use self::watcher::Watcher;
use crate::connect::Globals;
use crate::exit::Failure;

/// What `emq serve` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these queues; without any, all queues are searched for
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    /// Where to listen; anything but a loopback address shows the bus to the network
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7479")]
    listen: SocketAddr,

    /// How many queues are read and told, the first by name
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = queues_told)]
    queues_max: usize,

    /// Leave payloads, checkpoints and headers out of the console
    #[arg(long)]
    hide_payloads: bool,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let names = args.queues.iter().map(QueueName::new).collect::<Result<Vec<_>, _>>();
    let names = names.map_err(emq_core::Error::from)?;
    let mut end = listen::End::hear()?;
    let listener = TcpListener::bind(args.listen)
        .await
        .map_err(|error| Failure::failed(format!("can't listen on {}: {error}", args.listen)))?;
    let address = listener.local_addr().map_err(Failure::failed)?;
    let (link, mut broken) = Link::start(globals)?;
    let watcher = Watcher::start(link.clone(), names, args.queues_max);
    let site = Site::new(link.clone(), watcher, address, !args.hide_payloads);
    greet(address);
    let outcome = tokio::select! {
        outcome = listen::serve(listener, site, &mut end) => outcome,
        Some(failure) = broken.recv() => Err(failure),
    };
    link.close().await;
    outcome
}

/// Each queue costs thirteen reads a reading, and sixteen series.
fn queues_told(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(queues @ 1..=2_000) => Ok(queues),
        _ => Err("not from 1 to 2000".to_owned()),
    }
}

/// Said on standard error, so that standard output stays empty.
#[allow(clippy::print_stderr, reason = "the program's only words")]
fn greet(address: SocketAddr) {
    eprintln!("emq: serving on http://{address}/");
    if !address.ip().is_loopback() {
        eprintln!(
            "emq: warning: {address} is no loopback address. Whoever reaches it sees queues, jobs \
             and their payloads, without a password; put a proxy that asks for one before it."
        );
    }
}
