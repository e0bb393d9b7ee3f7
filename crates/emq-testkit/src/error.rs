//! What can go wrong when a server is started, and when one that runs is handled.

use std::io;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No server binary anywhere.
    #[error(
        "no valkey-server found: run `cargo xtask valkey install`, or set EMQ_VALKEY_SERVER to a \
         server binary"
    )]
    NotFound,
    /// No PostgreSQL anywhere.
    #[error(
        "no PostgreSQL 16 or later found: run `cargo xtask postgres install`, or set \
         EMQ_POSTGRES_BIN to the directory of its programs"
    )]
    NoPostgres,
    /// A path named by an environment variable isn't a file.
    #[error("{variable} names {path}, which is not a file: correct or unset it")]
    NoSuchBinary {
        /// The environment variable.
        variable: &'static str,
        /// What it names.
        path: String,
    },
    /// `EMQ_VALKEY_URL` isn't a URL that this crate can read.
    #[error(
        "EMQ_VALKEY_URL is not usable ({reason}): write valkey://[user[:password]@]host[:port]"
    )]
    BadUrl {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The server that `EMQ_VALKEY_URL` names doesn't answer.
    #[error("the server of EMQ_VALKEY_URL does not answer: start it, or unset the variable")]
    NoAnswer(#[source] AdminError),
    /// The server that `EMQ_POSTGRES_URL` names doesn't answer.
    #[error("the server of EMQ_POSTGRES_URL does not answer: start it, or unset the variable")]
    NoAnswerOfPostgres(#[source] AdminError),
    /// The server ended before it was ready.
    #[error("the server ended while starting: correct its configuration; its log ends with\n{log}")]
    Exited {
        /// The last lines that the server wrote.
        log: String,
    },
    /// The server runs but wasn't ready in time.
    #[error("the server was not ready after {seconds} s: look at its log, which ends with\n{log}")]
    NotReady {
        /// How long we waited, in seconds.
        seconds: u64,
        /// The last lines that the server wrote.
        log: String,
    },
    /// The port asked for is taken, or no free one was found.
    #[error("no free port ({detail}): choose another port, or none")]
    NoPort {
        /// Which ports were tried.
        detail: String,
    },
    /// The server is already running.
    #[error("the server is still running: use restart, or kill it first")]
    Running,
    /// The server belongs to somebody else.
    #[error("this server is shared (EMQ_VALKEY_URL): use Valkey::start for a server of your own")]
    Shared,
    /// A file, a process or a pipe failed.
    #[error("cannot {doing}: check the temporary directory and the process limits")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The container engine refused.
    #[cfg(feature = "containers")]
    #[error(
        "the container engine could not {doing}: is a Docker engine running, and the image there?"
    )]
    Container {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StartError {
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}

/// Why something asked of a running server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The server belongs to somebody else.
    #[error("this server is shared (EMQ_VALKEY_URL): use Valkey::start for a server of your own")]
    Shared,
    /// The PostgreSQL server belongs to somebody else.
    #[error("this server is shared (EMQ_POSTGRES_URL): use Postgres::start for one of your own")]
    SharedPostgres,
    /// The PostgreSQL server refused, or can't be reached.
    #[error("the statement failed: see whether the server runs")]
    Sql(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server isn't running.
    #[error("the server is not running: call start_again first")]
    NotRunning,
    /// The watchdog that looks after the server is gone.
    #[error("the watchdog of the server does not answer: start another server")]
    Watchdog(#[source] io::Error),
    /// The connection failed.
    #[error("cannot talk to the server: see whether it runs and isn't paused")]
    Io(#[from] io::Error),
    /// The server answered with an error; its whole text.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server's bytes aren't a reply.
    #[error("the server's reply is not RESP: is another program listening on that port?")]
    NotAReply,
    /// The container engine refused.
    #[cfg(feature = "containers")]
    #[error("the container engine could not {doing}: see whether the engine still runs")]
    Container {
        /// What was being done.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
