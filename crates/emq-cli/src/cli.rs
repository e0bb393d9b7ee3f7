//! The command line as a whole.

use clap::{Parser, Subcommand};

use crate::connect::Globals;
use crate::{serve, top};

/// Look after an EchoMQ bus: its queues, lanes, jobs and workers.
#[derive(Debug, Parser)]
#[command(name = "emq", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A live view of queues, lanes and workers
    Top(top::Args),
    /// Metrics, health and a read-only console over HTTP
    Serve(serve::Args),
}
