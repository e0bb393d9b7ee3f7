//! How a command ends: the exit codes, and the one line that says why.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::process::ExitCode;

use emq_core::Error;
use emq_testkit::StartError;

/// The exit codes that aren't success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    NotFound = 3,
    Unreachable = 4,
    Fenced = 5,
    Denied = 6,
    State = 7,
    Partial = 8,
    Unsound = 9,
    Unconfirmed = 10,
    Interrupted = 130,
    Closed = 141,
    Terminated = 143,
}

/// Every exit code and what it means: the help, the man page and the README print this.
pub(crate) const TABLE: [(u8, &str, &str); 14] = [
    (0, "done", "It was done; for a look: what was asked for is there."),
    (1, "failed", "The server or this machine refused, in a way that has no code of its own."),
    (
        2,
        "usage",
        "The command line is wrong: a flag, a name, an id, a time, a URL. Nothing was done.",
    ),
    (3, "not_found", "There is no such queue, lane or job (any more)."),
    (4, "unreachable", "The server can't be reached, or was lost on the way."),
    (5, "fenced", "The fence refused: another wire version, another engine, a cluster."),
    (6, "denied", "The server refused this user: a wrong password, or a right that is missing."),
    (7, "state", "The verb doesn't fit: the job is held, the queue isn't paused."),
    (8, "partial", "Some of it was done and some not: bad lines, jobs that were gone."),
    (9, "unsound", "The doctor's faults stand, or a contract doesn't hold."),
    (10, "unconfirmed", "It asks before it deletes, and wasn't told yes (see --yes)."),
    (130, "interrupted", "A second SIGINT ended it before its work was handed back."),
    (141, "closed", "Whoever read the output closed it."),
    (143, "terminated", "A second SIGTERM ended it before its work was handed back."),
];

impl Exit {
    /// Its word, by which `--json` names it.
    fn word(self) -> &'static str {
        let row = TABLE.iter().find(|(code, ..)| *code == self as u8);
        row.map_or("failed", |(_, word, _)| word)
    }
}

/// Why a command failed, in one line.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    line: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, line: impl fmt::Display) -> Failure {
        // Whatever a server, a file or a user wrote into it, it stays one line of text.
        let line: String = line.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Failure { exit, line: crate::output::printable(&line) }
    }

    pub(crate) fn failed(line: impl fmt::Display) -> Failure {
        Failure::new(Exit::Failed, line)
    }

    pub(crate) fn usage(line: impl fmt::Display) -> Failure {
        Failure::new(Exit::Usage, line)
    }

    /// A failed write to standard output.
    pub(crate) fn of_output(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => {
                Failure::new(Exit::Closed, "whoever read the output closed it")
            }
            _ => Failure::failed(format!("can't write the output: {error}")),
        }
    }

    /// The same, said with what it is about before it.
    pub(crate) fn about(self, subject: impl fmt::Display) -> Failure {
        Failure::new(self.exit, format!("{subject}: {}", self.line))
    }

    /// The same, with more said after it.
    pub(crate) fn and(self, more: &str) -> Failure {
        Failure::new(self.exit, format!("{}{more}", self.line))
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Says it on standard error, and gives the process' exit code.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        use std::io::Write;
        let line = if json {
            let exit = self.exit as u8;
            serde_json::json!({ "error": self.line, "code": self.exit.word(), "exit": exit })
                .to_string()
        } else {
            format!("emq: {}", self.line)
        };
        // Where not even this can be written, the exit code says it.
        let _ = writeln!(io::stderr(), "{line}");
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if error.is_denied() {
            return Failure::new(
                Exit::Denied,
                format!("the server refused this user: {}", root(&error)),
            );
        }
        let exit = match &error {
            Error::Config(_)
            | Error::Node(_)
            | Error::QueueName(_)
            | Error::PayloadTooLarge { .. }
            | Error::Setting { .. }
            | Error::Kind { .. } => Exit::Usage,
            Error::Gone { .. } => Exit::NotFound,
            Error::Disconnected { .. } | Error::Closed => Exit::Unreachable,
            Error::Minting(error) if error.is_retryable() => Exit::Unreachable,
            Error::Refused(_) => Exit::Fenced,
            Error::State { .. } | Error::Stale { .. } => Exit::State,
            _ => Exit::Failed,
        };
        Failure::new(exit, chain(&error))
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        Failure::failed(chain(&error))
    }
}

/// An error with its causes.
pub(crate) fn chain(error: &dyn StdError) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        // Some errors say their cause themselves.
        if !line.ends_with(&words) {
            line.push_str(": ");
            line.push_str(&words);
        }
        cause = error.source();
    }
    line
}

/// The words of the innermost cause.
pub(crate) fn root(error: &dyn StdError) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Exit; 13] = [
        Exit::Failed,
        Exit::Usage,
        Exit::NotFound,
        Exit::Unreachable,
        Exit::Fenced,
        Exit::Denied,
        Exit::State,
        Exit::Partial,
        Exit::Unsound,
        Exit::Unconfirmed,
        Exit::Interrupted,
        Exit::Closed,
        Exit::Terminated,
    ];

    #[test]
    fn every_code_is_in_the_table_once() {
        let codes: Vec<u8> = TABLE.iter().map(|(code, ..)| *code).collect();
        assert!(codes.is_sorted() && codes.len() == ALL.len() + 1);
        assert!(ALL.iter().all(|exit| codes.contains(&(*exit as u8))));
    }

    #[test]
    fn the_readme_has_the_table() {
        let readme = include_str!("../README.md");
        for (code, word, meaning) in TABLE {
            let row = format!("| {code} | `{word}` | {meaning} |");
            assert!(readme.contains(&row), "{row}");
        }
    }

    #[test]
    fn a_failure_is_one_line_whatever_is_in_it() {
        let failure = Failure::failed("a\nb\r\n\tc \u{1b}[31m");
        assert_eq!(failure.to_string(), "a b c \\u{1b}[31m");
    }
}
