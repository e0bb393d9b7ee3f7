//! `emq cancel`: calls jobs off.

use emq_core::Cancelled;
use emq_keys::BrandedId;

use super::named::{Outcome, each, home};
use crate::connect::Globals;
use crate::exit::{Exit, Failure};
use crate::values;

/// What `emq cancel` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The jobs
    #[arg(value_name = "ID", required = true, value_parser = values::job)]
    ids: Vec<BrandedId>,

    /// Their queue; found by walking the keyspace unless said
    #[arg(long, short, value_name = "QUEUE")]
    queue: Option<String>,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let bus = globals.connect().await?;
    each(globals.out(), &args.ids, async |id| {
        let queue = home(&bus, id, args.queue.as_deref()).await?;
        let outcome = match queue.cancel(id).await? {
            Cancelled::Gone => "cancelled",
            Cancelled::Asked => "runs; its holder was asked to stop",
            Cancelled::NoRow => return Err(gone(id, queue.name().as_str())),
        };
        Ok(Outcome { id, queue: Some(queue.name().to_string()), outcome, error: None })
    })
    .await
}

pub(super) fn gone(id: BrandedId, queue: &str) -> Failure {
    Failure::new(Exit::NotFound, format!("{queue} has no job {id} (any more)"))
}
