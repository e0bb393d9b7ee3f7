//! Standard input, read line by line in bounded memory.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// How many bytes of lines are in memory at most, besides the one that is read.
const BYTES_HELD: u32 = 8 * 1024 * 1024;
/// How many lines are in memory at most.
const LINES_HELD: usize = 4_000;

/// A line that was read.
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// How many bytes of the input ended with it.
    pub(super) input_bytes: u64,
    pub(super) payload: Result<Bytes, Bad>,
    /// Its part of what may be held; it is given back when the line is dropped.
    _held: Option<OwnedSemaphorePermit>,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    NotJson(String),
    TooLong { bytes: u64, limit: usize },
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::NotJson(why) => write!(f, "not JSON ({why})"),
            Bad::TooLong { bytes, limit } => write!(f, "{bytes} bytes, over the cap of {limit}"),
        }
    }
}

/// Checks a payload that stands alone.
pub(super) fn check(payload: &[u8], raw: bool) -> Result<(), Bad> {
    if raw {
        return Ok(());
    }
    match serde_json::from_slice::<IgnoredAny>(payload) {
        Ok(_) => Ok(()),
        Err(error) => {
            // There is one line, and the place in it is told.
            let why = error.to_string().replace("line 1 column", "column");
            Err(Bad::NotJson(why))
        }
    }
}

/// Reads standard input in a thread of its own. Blank lines are passed over, though counted.
pub(super) fn read_input(cap: usize, raw: bool) -> mpsc::Receiver<io::Result<Line>> {
    let (send, receive) = mpsc::channel(LINES_HELD);
    let budget = Arc::new(Semaphore::new(BYTES_HELD as usize));
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let input = BufReader::with_capacity(64 * 1024, io::stdin().lock());
        let ended = each_line(input, cap, |number, input_bytes, read| {
            let payload = read.and_then(|line| match check(&line, raw) {
                Ok(()) => Ok(Bytes::from(line)),
                Err(bad) => Err(bad),
            });
            let bytes = payload.as_ref().map_or(0, Bytes::len);
            let bytes = u32::try_from(bytes).unwrap_or(BYTES_HELD).min(BYTES_HELD);
            let held = runtime.block_on(Arc::clone(&budget).acquire_many_owned(bytes)).ok();
            let line = Line { number, input_bytes, payload, _held: held };
            send.blocking_send(Ok(line)).is_ok()
        });
        if let Err(error) = ended {
            // The receiver may be gone.
            let _ = send.blocking_send(Err(error));
        }
    });
    receive
}

/// Gives each line that isn't blank, until told that it is enough.
fn each_line(
    mut input: impl BufRead,
    cap: usize,
    mut give: impl FnMut(u64, u64, Result<Vec<u8>, Bad>) -> bool,
) -> io::Result<()> {
    let (mut number, mut input_bytes) = (0, 0);
    loop {
        let mut line = Vec::new();
        // A byte over the cap, the newline and a carriage return.
        let most = u64::try_from(cap).unwrap_or(u64::MAX).saturating_add(3);
        let mut bytes = (&mut input).take(most).read_until(b'\n', &mut line)? as u64;
        if bytes == 0 {
            return Ok(());
        }
        let ending = line.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let mut length = bytes - ending as u64;
        if line.last() != Some(&b'\n') && bytes == most {
            let skipped = skip_line(&mut input)?;
            (bytes, length) = (bytes + skipped.bytes, bytes + skipped.length);
        }
        (number, input_bytes) = (number + 1, input_bytes + bytes);
        while matches!(line.last(), Some(b'\n' | b'\r')) {
            line.pop();
        }
        if line.iter().all(u8::is_ascii_whitespace) && length <= cap as u64 {
            continue;
        }
        let read = match length > cap as u64 {
            true => Err(Bad::TooLong { bytes: length, limit: cap }),
            false => Ok(line),
        };
        if !give(number, input_bytes, read) {
            return Ok(());
        }
    }
}

/// The rest of a line that was passed over.
struct Skipped {
    /// With its newline.
    bytes: u64,
    /// Without.
    length: u64,
}

fn skip_line(input: &mut impl BufRead) -> io::Result<Skipped> {
    let mut skipped = Skipped { bytes: 0, length: 0 };
    loop {
        let held = input.fill_buf()?;
        let end = held.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(held.len());
        let bytes = end.map_or(length, |at| at + 1);
        input.consume(bytes);
        skipped.bytes += bytes as u64;
        skipped.length += length as u64;
        if end.is_some() || bytes == 0 {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], cap: usize) -> Vec<(u64, Result<Vec<u8>, Bad>)> {
        let mut lines = Vec::new();
        // A small buffer, so that lines span several reads.
        each_line(BufReader::with_capacity(3, input), cap, |number, _, line| {
            lines.push((number, line));
            true
        })
        .unwrap();
        lines
    }

    #[test]
    fn lines_keep_their_numbers_and_blank_ones_are_passed_over() {
        let lines = read(b"1\n\n  \n22\r\n\"3\"", 10);
        let wanted = [(1, b"1".to_vec()), (4, b"22".to_vec()), (5, b"\"3\"".to_vec())];
        assert_eq!(lines, wanted.map(|(number, line)| (number, Ok(line))));
        assert_eq!(read(b"", 10), []);
    }

    #[test]
    fn a_line_over_the_cap_is_passed_over_whole_and_its_length_told() {
        let long = |bytes| Err(Bad::TooLong { bytes, limit: 4 });
        let lines = read(b"12345\n1234\n123456789012345\n1\n12345678", 4);
        let ok = |line: &[u8]| Ok(line.to_vec());
        assert_eq!(
            lines,
            [(1, long(5)), (2, ok(b"1234")), (3, long(15)), (4, ok(b"1")), (5, long(8))]
        );
    }

    #[test]
    fn what_is_no_json_is_bad_unless_it_is_raw() {
        assert!(check(b"{\"a\":[1,2]}", false).is_ok() && check(b"7", false).is_ok());
        let Err(Bad::NotJson(why)) = check(b"{\"a\":", false) else { panic!("it is no JSON") };
        assert!(why.contains("column") && !why.contains("line"), "{why}");
        assert!(check(b"a b", false).is_err() && check(b"1 2", false).is_err());
        assert!(check(b"\xff", false).is_err() && check(b"\xff", true).is_ok());
    }
}
