//! A server that is a process of ours, under its watchdog.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::StartError;

/// What the shell runs: see the file.
const WATCHDOG: &str = include_str!("watchdog.sh");
/// How long a server may take until it answers; generous, because it only bounds a failure.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a server may take to shut down before it is killed.
const DOWN_WITHIN: Duration = Duration::from_secs(10);
/// The states of a process that has not stopped: it runs, sleeps, or waits for a disk.
const RUNNING: [char; 4] = ['R', 'S', 'D', 'I'];
/// What a server writes when another program has the port.
const PORT_LOST: &str = "Address already in use";

/// What is run, and how.
pub(crate) struct Program {
    /// The server's command line.
    pub(crate) command: Vec<OsString>,
    /// The name of its log in its directory.
    pub(crate) log: &'static str,
    /// The signal that ends it when its owner is gone, such as `KILL`.
    pub(crate) farewell: &'static str,
    /// As whom it runs, if not as ourselves: user and group. The directory must be theirs.
    pub(crate) user: Option<(u32, u32)>,
}

/// Where the watchdog lets the server's own output go.
pub(crate) const STDIO: &str = "stdio.log";

/// The watchdog, and through it the server.
pub(crate) struct Process {
    dir: PathBuf,
    log: &'static str,
    watchdog: Child,
    /// The write end of the pipe: closing it, by drop or by death, ends the server. It is opened
    /// close-on-exec, so no other child of this process holds it open.
    verbs: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pid: Option<u32>,
}

/// How a start ended that didn't fail altogether.
pub(crate) enum Started {
    Ready,
    PortLost,
}

impl Process {
    /// A watchdog over `dir`, which from now on is its to remove; no server yet.
    pub(crate) fn new(dir: tempfile::TempDir, program: &Program) -> Result<Self, StartError> {
        let mut command = Command::new("/bin/sh");
        if let Some((user, group)) = program.user {
            command.uid(user).gid(group);
        }
        let mut watchdog = command
            .args(["-c", WATCHDOG, "emq-watchdog"])
            .arg(dir.path())
            .arg(program.farewell)
            .args(&program.command)
            .current_dir(dir.path())
            // A group of its own: what a terminal or a timeout sends to the tests' group must not
            // end the watchdog before its server.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(StartError::io("start /bin/sh as the watchdog"))?;
        let dir = dir.keep();
        let verbs = watchdog.stdin.take();
        match watchdog.stdout.take() {
            Some(answers) => {
                let answers = BufReader::new(answers);
                Ok(Self { dir, log: program.log, watchdog, verbs, answers, pid: None })
            }
            None => Err(StartError::io("read from the watchdog")(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// The server's process id, if it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid.filter(|pid| is_running(*pid, self.watchdog.id()))
    }

    /// Starts the server and waits until `ready`, which is given its process id and what it wrote
    /// to its log since.
    pub(crate) fn start(
        &mut self,
        ready: impl Fn(u32, &str) -> bool,
    ) -> Result<Started, StartError> {
        if self.pid().is_some() {
            return Err(StartError::Running);
        }
        // One that ended by itself has not been buried yet.
        self.tell("kill").map_err(StartError::io("talk to the watchdog"))?;
        let log_from = self.log_length();
        let answer = self.tell("start").map_err(StartError::io("talk to the watchdog"))?;
        let pid = answer.trim().parse().map_err(|_| {
            StartError::io("read the server's pid")(io::ErrorKind::InvalidData.into())
        })?;
        self.pid = Some(pid);
        self.await_ready(pid, ready, log_from)
    }

    fn await_ready(
        &mut self,
        pid: u32,
        ready: impl Fn(u32, &str) -> bool,
        log_from: usize,
    ) -> Result<Started, StartError> {
        let deadline = Instant::now() + READY_WITHIN;
        let mut nap = Duration::from_millis(2);
        loop {
            let running = is_running(pid, self.watchdog.id());
            let log = self.log_since(log_from);
            if !running {
                let _ = self.kill(); // It has ended already; this only reaps it.
                let lost = log.contains(PORT_LOST);
                let log = tail(&self.log());
                return if lost { Ok(Started::PortLost) } else { Err(StartError::Exited { log }) };
            }
            if ready(pid, &log) {
                return Ok(Started::Ready);
            }
            if Instant::now() > deadline {
                let _ = self.kill();
                let seconds = READY_WITHIN.as_secs();
                return Err(StartError::NotReady { seconds, log: tail(&self.log()) });
            }
            thread::sleep(nap);
            nap = (nap * 2).min(Duration::from_millis(50));
        }
    }

    /// `SIGKILL`; the server is gone when this returns.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.tell("kill")?;
        self.pid = None;
        Ok(())
    }

    /// `SIGTERM`, then `SIGKILL` if that takes too long; the server is gone when this returns.
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        self.tell("term")?;
        let deadline = Instant::now() + DOWN_WITHIN;
        while self.pid().is_some() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        self.kill()
    }

    /// `SIGSTOP`; the server has stopped when this returns, not just been told to.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        self.tell("pause")?;
        let parent = self.watchdog.id();
        while self.pid.and_then(|pid| state(pid, parent)).is_some_and(|s| s.starts_with(RUNNING)) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// `SIGCONT`.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        self.tell("resume").map(drop)
    }

    /// Everything that the server wrote.
    pub(crate) fn log(&self) -> String {
        self.log_since(0)
    }

    fn log_since(&self, start: usize) -> String {
        let mut bytes = fs::read(self.dir.join(self.log)).unwrap_or_default();
        bytes.drain(..start.min(bytes.len()));
        if self.log != STDIO {
            // What was written before the log file was opened: a refused configuration, perhaps.
            bytes.extend(fs::read(self.dir.join(STDIO)).unwrap_or_default());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_length(&self) -> usize {
        let length = fs::metadata(self.dir.join(self.log)).map_or(0, |meta| meta.len());
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    fn tell(&mut self, verb: &str) -> io::Result<String> {
        let Some(verbs) = &mut self.verbs else { return Err(io::ErrorKind::BrokenPipe.into()) };
        verbs.write_all(format!("{verb}\n").as_bytes())?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }

    /// Kills the server, removes its directory and ends the watchdog.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.verbs = None;
        self.watchdog.wait().map(drop)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Whether this process is a child of `parent` that has not ended.
fn is_running(pid: u32, parent: u32) -> bool {
    state(pid, parent).is_some_and(|state| !state.starts_with(['Z', 'X']))
}

/// The letter that the kernel gives the state of this child of `parent`.
fn state(pid: u32, parent: u32) -> Option<String> {
    let text = if Path::new("/proc/self/stat").exists() {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before it is in parentheses and may hold anything.
        stat.rsplit_once(')')?.1.to_owned()
    } else {
        let pid = pid.to_string();
        let out = Command::new("ps").args(["-o", "stat=,ppid=", "-p", &pid]).output().ok()?;
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    let mut fields = text.split_whitespace();
    let state = fields.next()?;
    (fields.next()? == parent.to_string()).then(|| state.to_owned())
}

/// The last lines, for an error that is read in a terminal.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
