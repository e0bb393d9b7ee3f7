//! `emq obliterate`: takes a queue down.

use crate::confirm::Consent;
use crate::connect::Globals;
use crate::exit::{Exit, Failure};

/// What `emq obliterate` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The queue, which must be paused
    queue: String,

    /// Also the jobs in flight: their holders learn of it when they next extend or settle
    #[arg(long)]
    in_flight: bool,

    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let queue = globals.known_queue(&args.queue).await?;
    let name = queue.name();
    let counts = queue.counts().await?;
    if !counts.paused {
        return Err(Failure::new(
            Exit::State,
            format!("{name} isn't paused: emq pause {name}, and see that nothing needs it"),
        ));
    }
    if counts.active > 0 && !args.in_flight {
        return Err(Failure::new(
            Exit::State,
            format!(
                "{} jobs of {name} are in flight: wait for them, or say --in-flight",
                counts.active
            ),
        ));
    }
    let jobs = counts.pending + counts.in_lanes + counts.active + counts.scheduled + counts.dead;
    args.consent.ask(&format!("Take {name} down with its {jobs} jobs, lanes and settings?"))?;
    let removed = match args.in_flight {
        true => queue.obliterate_in_flight().await?,
        false => queue.obliterate().await?,
    };
    let value = serde_json::json!({ "queue": name.as_str(), "removed": removed });
    globals.out().tell(&value, || format!("{name} is gone, and {removed} jobs with it"))
}
