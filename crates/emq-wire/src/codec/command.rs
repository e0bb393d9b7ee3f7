//! Commands, encoded once into the bytes that travel.

use bytes::Bytes;

use super::hazard::{Hazard, Scan};
use super::pipeline::{Encoded, ScriptSpan};
use crate::script::Script;

/// Room kept before the first argument for `*<count>\r\n`, which is known only at the end.
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
        let mut cmd = Self { buf, args: 0, script: None, scan };
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
        let mut digits = itoa::Buffer::new();
        self.buf.push(b'$');
        self.buf.extend_from_slice(digits.format(value.len()).as_bytes());
        self.buf.extend_from_slice(b"\r\n");
        self.buf.extend_from_slice(value);
        self.buf.extend_from_slice(b"\r\n");
        self.args += 1;
    }

    /// Adds an integer argument in place.
    pub fn push_int(&mut self, value: i64) {
        let mut digits = itoa::Buffer::new();
        self.push(digits.format(value).as_bytes());
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
        let script = self.script.clone();
        let bytes = self.finish();
        let scripts = script
            .map(|script| ScriptSpan { index: 0, bytes: 0..bytes.len(), script })
            .into_iter()
            .collect();
        Encoded { bytes, replies: 1, scripts, hazard }
    }

    pub(super) fn finish(mut self) -> Bytes {
        let mut digits = itoa::Buffer::new();
        let count = digits.format(self.args).as_bytes();
        let start = HEADROOM - 3 - count.len();
        self.buf[start] = b'*';
        self.buf[start + 1..HEADROOM - 2].copy_from_slice(count);
        self.buf[HEADROOM - 2..HEADROOM].copy_from_slice(b"\r\n");
        let mut bytes = Bytes::from(self.buf);
        bytes::Buf::advance(&mut bytes, start);
        bytes
    }
}

/// The name and the length only: arguments may hold secrets or payloads.
impl std::fmt::Debug for Cmd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cmd({} args, {} bytes)", self.args, self.buf.len() - HEADROOM)
    }
}
