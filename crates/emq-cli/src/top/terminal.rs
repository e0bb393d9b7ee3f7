//! The terminal: taken, and given back however the view ends.

use std::io::Stdout;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;

use crate::exit::Failure;

/// How many keys wait while the view is busy; what is typed beyond that waits in the terminal.
const KEYS: usize = 64;

/// The terminal in raw mode, on its other screen. Dropping it brings it back as it was; a panic of
/// whichever thread does so before its message is printed.
pub(super) struct Taken {
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Taken {
    pub(super) fn take() -> Result<Taken, Failure> {
        let terminal = ratatui::try_init().inspect_err(|_| give_back());
        let terminal = terminal
            .map_err(|error| Failure::failed(format!("the terminal can't be used: {error}")))?;
        Ok(Taken { terminal })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// There is nobody to tell when that fails.
fn give_back() {
    let _ = ratatui::try_restore();
}

/// What is typed, and changes of the size. It closes when the terminal is gone.
pub(super) fn events() -> mpsc::Receiver<Event> {
    let (typed, events) = mpsc::channel(KEYS);
    // A read of the terminal can't be called back: this thread ends with the process.
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if typed.blocking_send(event).is_err() {
                return;
            }
        }
    });
    events
}
