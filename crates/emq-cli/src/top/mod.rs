//! `emq top`: a live view in a terminal.
//!
//! The [`model`] is the state of the view and what keys do to it; [`sampling`] reads what the model
//! wants, [`draw`] shows it, [`live`] runs the three, and [`terminal`] gives the terminal back
//! however that ends.

mod act;
mod draw;
mod live;
mod model;
mod reading;
mod sampling;
mod terminal;
mod workers;

use std::io::IsTerminal;
use std::time::Duration;

use emq_keys::QueueName;

use crate::connect::Globals;
use crate::exit::{Exit, Failure};
use crate::output::Colour;

/// What `emq top` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these queues; without any, all queues are searched for
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    /// How often to read, in seconds, from 0.2 to 60
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    every: Duration,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    if globals.json || !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let line = "emq top draws on a terminal; emq ls --json and emq serve are for scripts";
        return Err(Failure::new(Exit::Usage, line));
    }
    let names = args.queues.iter().map(QueueName::new).collect::<Result<Vec<_>, _>>();
    let names = names.map_err(emq_core::Error::from)?;
    let bus = globals.connect().await?;
    let view = live::View {
        server: without_password(globals.url()?),
        names,
        every: args.every,
        look: draw::Look { colours: has_colours(globals.colour) },
    };
    let outcome = live::run(bus.clone(), view).await;
    // The bus gives its node back, unless the server is out of reach.
    let _ = tokio::time::timeout(Duration::from_millis(500), bus.close()).await;
    outcome
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.2..=60.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("not from 0.2 to 60".to_owned())
}

/// The URL without whatever stands before its host.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

fn has_colours(colour: Colour) -> bool {
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_reaches_the_screen() {
        for (url, shown) in [
            ("valkey://127.0.0.1:6379", "valkey://127.0.0.1:6379"),
            ("valkey://:secret@host:1/2", "valkey://host:1/2"),
            ("valkeys://ann:se@cret@host", "valkeys://host"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn an_interval_is_bounded() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0.1", "0", "-1", "61", "NaN", "inf", "x", ""] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
