//! Asking before something is deleted.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::{Exit, Failure};

/// What every command takes that deletes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Consent {
    /// Don't ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

impl Consent {
    /// Asks on the terminal, unless told yes already. Nobody is asked where nobody could answer.
    pub(crate) fn ask(self, question: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        let refused = |why: &str| Failure::new(Exit::Unconfirmed, format!("{question} {why}"));
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(refused("Say --yes: nobody can be asked here"));
        }
        let mut stderr = io::stderr();
        let mut answer = String::new();
        let asked = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        asked
            .and_then(|()| io::stdin().lock().read_line(&mut answer))
            .map_err(|error| refused(&format!("The terminal failed: {error}")))?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(refused("Not confirmed; nothing was done")),
        }
    }
}
