//! The program in a pseudo terminal, and what a terminal would show of it.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};

use super::PATIENCE;

/// A program in a terminal of its own. It is killed when this is dropped.
pub(crate) struct Screen {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    shown: Arc<Shown>,
}

struct Shown {
    parser: Mutex<(vt100::Parser, bool)>,
    changed: Condvar,
}

impl Screen {
    /// Starts `emq` with these arguments.
    pub(crate) fn emq(args: &[&str], size: (u16, u16)) -> Screen {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_emq"));
        command.args(args);
        Screen::start(command, size)
    }

    pub(crate) fn start(mut command: CommandBuilder, (width, height): (u16, u16)) -> Screen {
        command.env("TERM", "xterm-256color");
        let size = PtySize { rows: height, cols: width, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut output = pair.master.try_clone_reader().unwrap();
        let keys = pair.master.take_writer().unwrap();
        let parser = vt100::Parser::new(cells(height), cells(width), 0);
        let parser = Mutex::new((parser, false));
        let shown = Arc::new(Shown { parser, changed: Condvar::new() });
        let seen = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let n = output.read(&mut bytes).unwrap_or(0);
                let mut parser = seen.parser.lock().unwrap();
                parser.0.process(&bytes[..n]);
                parser.1 = n == 0;
                seen.changed.notify_all();
                if n == 0 {
                    return;
                }
            }
        });
        Screen { child, master: pair.master, keys, shown }
    }

    /// Waits until the screen's text is as wanted, and answers it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        self.wait(what, |parser, _| holds(&parser.screen().contents()));
        self.text()
    }

    /// What the screen shows now.
    pub(crate) fn text(&self) -> String {
        self.shown.parser.lock().unwrap().0.screen().contents()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    pub(crate) fn resize(&self, width: u16, height: u16) {
        let size = PtySize { rows: height, cols: width, pixel_width: 0, pixel_height: 0 };
        let mut parser = self.shown.parser.lock().unwrap();
        parser.0.screen_mut().set_size(cells(height), cells(width));
        drop(parser);
        self.master.resize(size).unwrap();
    }

    pub(crate) fn pid(&self) -> String {
        self.child.process_id().unwrap().to_string()
    }

    /// Waits for the end, and requires that the terminal is as it was before.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.wait("the end", |_, ended| ended);
        let status = self.child.wait().unwrap();
        let parser = self.shown.parser.lock().unwrap();
        let screen = parser.0.screen();
        assert!(!screen.alternate_screen(), "left on the other screen");
        assert!(!screen.hide_cursor(), "left without a cursor");
        status
    }

    fn wait(&self, what: &str, holds: impl Fn(&vt100::Parser, bool) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut parser = self.shown.parser.lock().unwrap();
        while !holds(&parser.0, parser.1) {
            let left = deadline.saturating_duration_since(Instant::now());
            let text = parser.0.screen().contents();
            assert!(!left.is_zero() && !parser.1, "{what} didn't come:\n{text}");
            parser = self.shown.changed.wait_timeout(parser, left).unwrap().0;
        }
    }
}

fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap()
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
