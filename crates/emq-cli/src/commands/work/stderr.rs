//! What a process says on standard error: passed on, and its last line kept.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;

/// How much of a line is kept: as much as a row keeps of an error.
const LINE_MOST: usize = 4 * 1024;
/// How long the rest is waited for once the process has ended: what it left behind may hold the
/// other end open.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// Reads standard error until its end.
pub(super) struct Listener {
    reading: JoinHandle<()>,
    tail: Arc<Mutex<Tail>>,
}

/// The last line that isn't blank, and the one that is being written.
#[derive(Debug, Default)]
struct Tail {
    last: Vec<u8>,
    open: Vec<u8>,
}

impl Listener {
    pub(super) fn new(stderr: Option<impl AsyncRead + Unpin + Send + 'static>) -> Listener {
        let tail = Arc::new(Mutex::new(Tail::default()));
        let kept = Arc::clone(&tail);
        let reading = tokio::spawn(async move {
            let Some(mut stderr) = stderr else { return };
            let mut piece = [0; 8 * 1024];
            while let Ok(bytes @ 1..) = stderr.read(&mut piece).await {
                // Whether anybody reads it isn't the process' concern.
                let _ = std::io::stderr().write_all(&piece[..bytes]);
                kept.lock().unwrap_or_else(PoisonError::into_inner).add(&piece[..bytes]);
            }
        });
        Listener { reading, tail }
    }

    /// The last line, once the process has ended.
    pub(super) async fn finish(&mut self) -> Option<String> {
        if tokio::time::timeout(REST_WITHIN, &mut self.reading).await.is_err() {
            self.reading.abort();
        }
        self.tail.lock().unwrap_or_else(PoisonError::into_inner).line()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Tail {
    fn add(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_MOST.saturating_sub(self.open.len());
            self.open.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.open);
                if !line.trim_ascii().is_empty() {
                    self.last = line;
                }
            }
        }
    }

    fn line(&self) -> Option<String> {
        let open = self.open.trim_ascii();
        let line = if open.is_empty() { self.last.trim_ascii() } else { open };
        (!line.is_empty()).then(|| String::from_utf8_lossy(line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(pieces: &[&[u8]]) -> Option<String> {
        let mut tail = Tail::default();
        for piece in pieces {
            tail.add(piece);
        }
        tail.line()
    }

    #[test]
    fn the_last_line_that_says_something_is_kept() {
        assert_eq!(last(&[]), None);
        assert_eq!(last(&[b"one\ntwo\n\n  \n"]).as_deref(), Some("two"));
        assert_eq!(last(&[b"one\ntw", b"o"]).as_deref(), Some("two"));
        assert_eq!(last(&[b"one\n", b"\r\n"]).as_deref(), Some("one"));
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let flood = vec![b'x'; 100_000];
        assert_eq!(last(&[&flood, &flood]).map(|line| line.len()), Some(LINE_MOST));
        assert_eq!(last(&[&flood, b"\nend\n"]).as_deref(), Some("end"));
    }
}
