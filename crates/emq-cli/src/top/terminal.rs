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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use portable_pty::{CommandBuilder, PtySize, native_pty_system};

    use super::Taken;

    /// Tells the test below, in a terminal of its own, to panic there.
    const PANIC_HERE: &str = "EMQ_TEST_PANIC_ON_SCREEN";

    #[test]
    fn a_panic_of_any_thread_gives_the_terminal_back_before_it_speaks() {
        if std::env::var_os(PANIC_HERE).is_some() {
            let taken = Taken::take().unwrap();
            std::thread::spawn(|| panic!("of another thread")).join().unwrap_err();
            drop(taken);
            return;
        }
        let terminal = native_pty_system().openpty(PtySize::default()).unwrap();
        let mut command = CommandBuilder::new(std::env::current_exe().unwrap());
        let name = "a_panic_of_any_thread_gives_the_terminal_back_before_it_speaks";
        command.args([&format!("top::terminal::tests::{name}"), "--exact", "--nocapture"]);
        command.env(PANIC_HERE, "1");
        let mut child = terminal.slave.spawn_command(command).unwrap();
        drop(terminal.slave);
        let mut output = terminal.master.try_clone_reader().unwrap();
        let mut said = Vec::new();
        // A terminal that nobody has open any more is an error, after all of its text.
        let _ = output.read_to_end(&mut said);
        assert!(child.wait().unwrap().success());
        let said = String::from_utf8_lossy(&said);
        let (taken, left) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
        let place = |what: &str| said.find(what).unwrap_or_else(|| panic!("{what:?}: {said:?}"));
        assert!(place(taken) < place(left), "{said:?}");
        assert!(place(left) < place("of another thread"), "{said:?}");
    }
}
