//! The command line as a whole.

use std::fmt::Write as _;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    bench, browse, cancel, checkpoint, completions, conform, dev, doctor, drain, enqueue, lanes,
    limit, ls, man, morgue, obliterate, pause, remove, resume, schedules, show, weight, work,
};
use crate::connect::Globals;
use crate::exit::{Failure, TABLE};
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
    /// Start a throw-away Valkey and print its URL
    Dev(dev::Args),
    /// Enqueue a payload, or each line of standard input
    Enqueue(enqueue::Args),
    /// Work a queue with a command: one process a job
    Work(work::Args),
    /// Keep progress of the job that this process works
    Checkpoint(checkpoint::Args),
    /// List queues with their counts
    Ls(ls::Args),
    /// List a queue's lanes
    Lanes(lanes::Args),
    /// Explain a job
    Show(show::Args),
    /// List jobs of a queue
    Browse(browse::Args),
    /// List, requeue or purge dead letters
    Morgue(morgue::Args),
    /// Bound how many of a lane's jobs run at once
    Limit(limit::Args),
    /// Set how many jobs a lane starts per turn
    Weight(weight::Args),
    /// Stop serving a queue or a lane; what is in flight is untouched
    Pause(pause::Args),
    /// Serve a queue or a lane again
    Resume(resume::Args),
    /// Call jobs off, those in flight too
    Cancel(cancel::Args),
    /// Delete jobs that nobody holds
    Remove(remove::Args),
    /// Delete what waits in a queue or a lane
    Drain(drain::Args),
    /// Take a paused queue down with all that is in it
    Obliterate(obliterate::Args),
    /// Examine queues while they run, and mend them
    Doctor(doctor::Args),
    /// Jobs that recur: list, add, pause, resume, run now, remove
    Schedules(schedules::Args),
    /// Read throughput and latency of this server
    Bench(bench::Args),
    /// Drive the fourteen contracts against this server
    Conform(conform::Args),
    /// A live view of queues, lanes and workers
    Top(top::Args),
    /// Metrics, health and a read-only console over HTTP
    Serve(serve::Args),
    /// Print a shell's completions
    Completions(completions::Args),
    /// Print the manual
    Man(man::Args),
}

/// The command line with the exit codes in its help.
pub(crate) fn command() -> clap::Command {
    let mut codes = String::from("Exit codes:\n");
    for (code, word, meaning) in TABLE {
        // A string takes any text.
        let _ = writeln!(codes, "  {code:>3}  {word:<11}  {meaning}");
    }
    Cli::command().after_long_help(codes)
}

/// Reads the command line; `None` when all it asked for was help.
pub(crate) fn parse() -> Result<Option<Cli>, Failure> {
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => Ok(Some(cli)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                error.print().map_err(|error| Failure::of_output(&error))?;
                Ok(None)
            }
            ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Err(Failure::usage("say what to do, such as emq ls; see emq --help"))
            }
            _ => Err(Failure::usage(one_line(&error.to_string()))),
        },
    }
}

/// What is wrong, without the usage and the hints that stand below it.
fn one_line(report: &str) -> String {
    let said = report.strip_prefix("error: ").unwrap_or(report);
    let aside = |part: &&str| !part.starts_with("Usage:") && !part.starts_with("For more");
    said.split("\n\n").filter(aside).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_error_of_the_command_line_is_one_line() {
        for words in [
            &["emq", "nothing"][..],
            &["emq", "ls", "--jsno"],
            &["emq", "show"],
            &["emq", "show", "JOB"],
            &["emq", "enqueue", "q", "--in", "5", "1"],
            &["emq", "limit", "q", "--lane", "x", "many"],
        ] {
            let error = command().try_get_matches_from(words).unwrap_err();
            let failure = Failure::usage(one_line(&error.to_string())).to_string();
            assert!(!failure.contains("Usage") && !failure.contains('\n'), "{failure}");
            assert!(failure.len() < 250, "{failure}");
        }
    }
}
