//! `emq remove`: deletes jobs that nobody holds.

use emq_core::Removed;
use emq_keys::BrandedId;

use super::cancel::gone;
use super::named::{Outcome, each, home};
use crate::confirm::Consent;
use crate::connect::Globals;
use crate::exit::Failure;
use crate::values;

/// What `emq remove` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The jobs
    #[arg(value_name = "ID", required = true, value_parser = values::job)]
    ids: Vec<BrandedId>,

    /// Their queue; found by walking the keyspace unless said
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<String>,

    #[command(flatten)]
    consent: Consent,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let bus = globals.connect().await?;
    let question = match &args.ids[..] {
        [id] => format!("Delete {id} for good?"),
        ids => format!("Delete {} jobs for good?", ids.len()),
    };
    args.consent.ask(&question)?;
    each(globals.out(), &args.ids, async |id| {
        let queue = home(&bus, id, args.queue.as_deref()).await?;
        match queue.remove(id).await? {
            Removed::Done => {}
            Removed::NoRow => return Err(gone(id, queue.name().as_str())),
        }
        let queue = Some(queue.name().to_string());
        Ok(Outcome { id, queue, outcome: "removed", error: None })
    })
    .await
}
