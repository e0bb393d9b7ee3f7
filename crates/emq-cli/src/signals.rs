//! The signals that end a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{Exit, Failure};

/// SIGINT and SIGTERM, as they come.
pub(crate) struct Stops {
    interrupt: Signal,
    terminate: Signal,
}

/// Which signal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Interrupt,
    Terminate,
}

impl Stops {
    /// From now on these signals don't end the process by themselves.
    pub(crate) fn new() -> Result<Stops, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::failed(format!("can't hear signals: {error}")))
        };
        Ok(Stops {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// The next of them.
    pub(crate) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
        }
    }
}

impl Stop {
    /// The exit code of a command that such a signal cut short.
    pub(crate) fn exit(self) -> Exit {
        match self {
            Stop::Interrupt => Exit::Interrupted,
            Stop::Terminate => Exit::Terminated,
        }
    }
}
