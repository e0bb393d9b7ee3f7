//! How a command ends: the exit codes, and the one line that says why.

use std::error::Error as StdError;
use std::fmt;
use std::process::ExitCode;

use emq_core::Error;

/// The exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The server or the machine refused in a way that no other code is for.
    Failed = 1,
    /// The command line is wrong: a flag, a name, an id, a URL.
    Usage = 2,
    /// There is no such queue, lane or job.
    NotFound = 3,
    /// The server is out of reach.
    Unreachable = 4,
}

/// Why a command failed, in one line.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    line: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, line: impl fmt::Display) -> Failure {
        Failure { exit, line: line.to_string() }
    }

    pub(crate) fn failed(line: impl fmt::Display) -> Failure {
        Failure::new(Exit::Failed, line)
    }

    /// Says it on standard error, and gives the process' exit code.
    #[allow(clippy::print_stderr, reason = "the program's only word of its failure")]
    pub(crate) fn report(&self, _json: bool) -> ExitCode {
        eprintln!("emq: {}", self.line);
        ExitCode::from(self.exit as u8)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match &error {
            Error::Config(_) | Error::Node(_) | Error::QueueName(_) => Exit::Usage,
            Error::Gone { .. } => Exit::NotFound,
            Error::Disconnected { .. } => Exit::Unreachable,
            _ => Exit::Failed,
        };
        Failure::new(exit, chain(&error))
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(": ");
        line.push_str(&error.to_string());
        cause = error.source();
    }
    line.replace(['\n', '\r'], " ")
}
