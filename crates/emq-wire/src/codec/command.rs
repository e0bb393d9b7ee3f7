//! Commands, encoded once into the bytes that travel.

use bytes::{Buf, Bytes};

use super::hazard::{Hazard, Scan};
use super::pipeline::{Encoded, ScriptSpan};
use crate::script::Script;

/// Room kept before the first argument for `*<count>\r\n`, which is known only at the end: a
/// count of 32 bits has at most ten digits.
const HEADROOM: usize = 13;

/// One command: an array of binary-safe arguments, already in wire form.
///
/// ```
/// use emq_wire::Cmd;
/// let cmd = Cmd::new("SET").arg("key").arg(b"any\r\nbytes\0").arg("PX").int(1500);
/// assert_eq!(cmd.arg_count(), 5);
/// assert!(cmd.to_bytes().starts_with(b"*5\r\n$3\r\nSET\r\n"));
/// ```
#[derive(Clone)]
pub struct Cmd {
    /// `HEADROOM` unused bytes, then the arguments.
    buf: Vec<u8>,
    args: u32,
    script: Option<Script>,
    scan: Scan,
    at_once: bool,
}

impl Cmd {
    /// Starts a command with its name, for instance `GET`.
    pub fn new(name: &str) -> Self {
        Self::with_capacity(name, 64)
    }

    /// Starts a command whose arguments will take about `capacity` bytes.
    pub fn with_capacity(name: &str, capacity: usize) -> Self {
        Self::start(name, capacity, Scan::start(name))
    }

    /// Starts the call of a script by its digest, with `keys` declared as KEYS.
    pub(crate) fn evalsha(script: &Script, keys: usize, capacity: usize) -> Self {
        let mut cmd = Self::start("EVALSHA", 64 + capacity, Scan::Settled(None));
        cmd.append(script.sha1().as_bytes());
        cmd.push_int(keys as i64);
        cmd.script = Some(script.clone());
        cmd
    }

    fn start(name: &str, capacity: usize, scan: Scan) -> Self {
        let mut buf = Vec::with_capacity(HEADROOM + 16 + name.len() + capacity);
        buf.extend_from_slice(&[0; HEADROOM]);
        let mut cmd = Self { buf, args: 0, script: None, scan, at_once: false };
        cmd.append(name.as_bytes());
        cmd
    }

    /// Adds one argument. Any byte may stand in it.
    #[must_use]
    pub fn arg(mut self, value: impl AsRef<[u8]>) -> Self {
        self.push(value.as_ref());
        self
    }

    /// Adds an integer argument in decimal.
    #[must_use]
    pub fn int(mut self, value: i64) -> Self {
        self.push_int(value);
        self
    }

    /// Adds one argument in place.
    pub fn push(&mut self, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        self.scan.see(value);
        self.append(value);
    }

    fn append(&mut self, value: &[u8]) {
        let len = value.len();
        // A header takes at most 23 bytes.
        self.buf.reserve(len + 25);
        if len < 10 {
            self.buf.extend_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']);
        } else {
            self.buf.push(b'$');
            self.buf.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
            self.buf.extend_from_slice(b"\r\n");
        }
        self.buf.extend_from_slice(value);
        self.buf.extend_from_slice(b"\r\n");
        self.args += 1;
    }

    /// Adds an integer argument in place.
    pub fn push_int(&mut self, value: i64) {
        let mut digits = itoa::Buffer::new();
        self.push(digits.format(value).as_bytes());
    }

    /// Has it written at once, without waiting for what other tasks may add to the write: for a
    /// call that is a batch itself, and worth a write of its own.
    #[must_use]
    pub fn at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// How many arguments the command has, its name included.
    pub fn arg_count(&self) -> usize {
        self.args as usize
    }

    /// The bytes that travel.
    pub fn to_bytes(&self) -> Bytes {
        self.clone().finish()
    }

    /// Why a shared connection must refuse the command.
    pub(crate) fn hazard(&self) -> Option<Hazard> {
        self.scan.verdict()
    }

    pub(super) fn script(&self) -> Option<&Script> {
        self.script.as_ref()
    }

    /// The command as a submission of its own.
    pub(crate) fn encode(self) -> Encoded {
        let hazard = self.hazard();
        let (script, at_once) = (self.script.clone(), self.at_once);
        let bytes = self.finish();
        let scripts = script
            .map(|script| ScriptSpan { index: 0, bytes: 0..bytes.len(), script })
            .into_iter()
            .collect();
        Encoded { bytes, replies: 1, scripts, hazard, at_once }
    }

    /// The bytes that travel, without an owner of their own.
    pub(super) fn wire(&mut self) -> &[u8] {
        let start = self.head();
        &self.buf[start..]
    }

    fn finish(mut self) -> Bytes {
        let start = self.head();
        let mut bytes = Bytes::from(self.buf);
        bytes.advance(start);
        bytes
    }

    /// Writes `*<count>\r\n` before the first argument; the answer is where it starts.
    fn head(&mut self) -> usize {
        let mut digits = itoa::Buffer::new();
        let count = digits.format(self.args).as_bytes();
        let start = HEADROOM - 3 - count.len();
        self.buf[start] = b'*';
        self.buf[start + 1..HEADROOM - 2].copy_from_slice(count);
        self.buf[HEADROOM - 2..HEADROOM].copy_from_slice(b"\r\n");
        start
    }
}

/// Counts only: arguments may hold secrets or payloads.
impl std::fmt::Debug for Cmd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cmd({} args, {} bytes)", self.args, self.buf.len() - HEADROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_fits_any_count() {
        let mut cmd = Cmd::new("X");
        for args in [1, 9, 10, 99, 100, 12_345, u32::MAX] {
            cmd.args = args;
            let wire = format!("*{args}\r\n$1\r\nX\r\n");
            assert_eq!(cmd.wire(), wire.as_bytes());
            assert_eq!(cmd.to_bytes(), wire.as_bytes());
        }
    }

    #[test]
    fn arguments_of_every_length_and_any_bytes() {
        for len in [0, 1, 9, 10, 11, 99, 100, 5000] {
            let value: Vec<u8> = b"\r\n\0$*".iter().copied().cycle().take(len).collect();
            let mut wire = format!("*2\r\n$4\r\nECHO\r\n${len}\r\n").into_bytes();
            wire.extend_from_slice(&value);
            wire.extend_from_slice(b"\r\n");
            assert_eq!(Cmd::new("ECHO").arg(&value).to_bytes(), wire);
        }
        let int = Cmd::new("X").int(i64::MIN).int(0);
        assert_eq!(
            int.to_bytes(),
            &b"*3\r\n$1\r\nX\r\n$20\r\n-9223372036854775808\r\n$1\r\n0\r\n"[..]
        );
    }

    #[test]
    fn a_script_call_knows_its_script_and_its_bytes() {
        let script = Script::new("one", "return 1");
        let mut pipeline = super::super::Pipeline::new();
        pipeline.push(Cmd::new("PING"));
        pipeline.push(script.call(1, 0).arg("k").arg("v"));
        pipeline.push(Cmd::new("MULTI"));
        pipeline.push(script.call(0, 0));
        pipeline.push(Cmd::new("EXEC"));
        let encoded = pipeline.encode();
        assert_eq!((encoded.replies, encoded.hazard), (5, None));
        let [span] = &encoded.scripts[..] else {
            panic!("inside a transaction none is sent again")
        };
        assert_eq!(span.index, 1);
        let alone = script.call(1, 0).arg("k").arg("v");
        assert_eq!(encoded.bytes[span.bytes.clone()], alone.to_bytes());
        let alone = alone.encode();
        assert_eq!(alone.scripts[0].bytes, 0..alone.bytes.len());
    }

    #[test]
    fn debug_shows_no_argument() {
        let shown = format!("{:?}", Cmd::new("AUTH").arg("hunter2"));
        assert_eq!(shown, "Cmd(2 args, 23 bytes)");
    }
}
