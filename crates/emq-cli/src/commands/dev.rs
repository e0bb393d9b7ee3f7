//! `emq dev`: a throw-away server.

use std::io::Write;
use std::time::Duration;

use emq_testkit::{AdminError, Fsync, Valkey};

use crate::connect::Globals;
use crate::exit::{Exit, Failure};
use crate::signals::Stops;

/// How often it is seen whether the server is still there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What `emq dev` is told.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// The port; a free one unless said
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Keep an append-only file that is synced before each reply, so that --durable can be tried;
    /// it goes with the server
    #[arg(long)]
    durable: bool,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let mut stops = Stops::new()?;
    let valkey = tokio::task::spawn_blocking(move || start(args));
    let valkey =
        valkey.await.map_err(|error| Failure::failed(format!("can't start: {error}")))??;
    let url = valkey.url();
    let version = valkey.version().map_err(|error| Failure::failed(crate::exit::chain(&error)))?;
    let value = serde_json::json!({ "url": url, "version": version, "port": valkey.port() });
    globals.out().tell(&value, || url.clone())?;
    if !globals.json {
        let hint = format!(
            "emq: Valkey {version} runs until this command ends, and its data with it; elsewhere: \
             export EMQ_URL={url}\n"
        );
        // Nobody may read it.
        let _ = std::io::stderr().write_all(hint.as_bytes());
    }
    let valkey = std::sync::Arc::new(valkey);
    loop {
        tokio::select! {
            _ = stops.next() => return Ok(()),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let asked = std::sync::Arc::clone(&valkey);
        let answer = tokio::task::spawn_blocking(move || asked.cli(&["PING"])).await;
        if let Ok(Err(AdminError::Io(error))) = answer
            && error.kind() == std::io::ErrorKind::ConnectionRefused
        {
            return Err(Failure::new(Exit::Unreachable, "the server ended by itself"));
        }
    }
}

fn start(args: Args) -> Result<Valkey, Failure> {
    let mut builder = Valkey::builder();
    if let Some(port) = args.port {
        builder = builder.port(port);
    }
    if args.durable {
        builder = builder.append_only(Fsync::Always);
    }
    Ok(builder.start()?)
}
