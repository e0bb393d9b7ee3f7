//! `emq checkpoint`: what a command under `emq work` keeps of its progress.

use std::io::Read;
use std::sync::Arc;

use emq_core::{Extended, Hold};
use emq_keys::BrandedId;

use crate::connect::Globals;
use crate::exit::{Exit, Failure};
use crate::values;

/// The most that is read of standard input: a byte more than a checkpoint may have.
const INPUT_MOST: u64 = 64 * 1024 + 1;

/// What `emq checkpoint` is told. `emq work` sets the variables.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The progress; - for standard input
    data: String,

    /// The queue
    #[arg(long, env = "EMQ_QUEUE", value_name = "QUEUE")]
    queue: String,

    /// The job
    #[arg(long, env = "EMQ_JOB_ID", value_name = "ID", value_parser = values::job)]
    id: BrandedId,

    /// The token of this attempt
    #[arg(long, env = "EMQ_TOKEN", value_name = "N")]
    token: u64,

    /// The ticket of the claim
    #[arg(long, env = "EMQ_TICKET", value_name = "TICKET")]
    ticket: Option<String>,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let data = if args.data == "-" { read_input()? } else { args.data.into_bytes() };
    let queue = globals.queue(&args.queue).await?;
    let ticket = args.ticket.map(Arc::from);
    let hold = Hold { id: args.id, token: args.token, ticket };
    let extended = queue.checkpoint(&hold, &data, None).await?;
    let asked = extended == Extended::CancelAsked;
    let value = serde_json::json!({ "kept_bytes": data.len(), "cancel_asked": asked });
    if globals.json {
        globals.out().value(&value)?;
    }
    if asked {
        return Err(Failure::new(Exit::State, "kept; the job was called off, so end it"));
    }
    Ok(())
}

fn read_input() -> Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_MOST).read_to_end(&mut data);
    read.map_err(|error| Failure::failed(format!("can't read standard input: {error}")))?;
    Ok(data)
}
