//! What the tests of the commands stand on: the real binary against a real server.
#![allow(dead_code)] // Each test binary uses a part of it.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use emq_core::{Bus, Queue};
use emq_testkit::Valkey;
use serde_json::Value;

/// How long a test waits for what must happen. Only a test that fails waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The command on the server that the tests of one binary share.
pub(crate) fn emq(args: &[&str]) -> Ran {
    emq_on(&Valkey::of_this_process().url(), args)
}

/// The command on a server.
pub(crate) fn emq_on(url: &str, args: &[&str]) -> Ran {
    run(command(url, args), "")
}

/// The command with something on its standard input.
pub(crate) fn emq_with(args: &[&str], input: impl AsRef<[u8]>) -> Ran {
    run(command(&Valkey::of_this_process().url(), args), input)
}

/// The command, not started yet, with nothing of the test's own environment.
pub(crate) fn command(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_emq"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("EMQ_")
            && name != "EMQ_VALKEY_SERVER"
            && name != "EMQ_CACHE"
        {
            command.env_remove(name);
        }
    }
    command.env("EMQ_URL", url).args(args);
    command
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: &Output) -> Ran {
        Ran {
            code: code(output.status),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// It did what it was told; its output without the last newline.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        self.out.trim_end()
    }

    /// It did what it was told, and said so in one value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let out = self.ok();
        serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// It failed with this code and one line, which is answered without what every line begins with.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        let lines: Vec<&str> = self.err.lines().collect();
        let [line] = lines[..] else { panic!("one line was expected: {self:?}") };
        assert!(!line.contains("panicked") && line.len() < 400, "{line}");
        line.strip_prefix("emq: ").unwrap_or_else(|| panic!("{line}"))
    }
}

/// As a shell has it: 128 and the signal for one that a signal ended.
pub(crate) fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Runs it to its end.
pub(crate) fn run(mut command: Command, input: impl AsRef<[u8]>) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref().to_vec();
    let feeding = std::thread::spawn(move || {
        // One that fails early doesn't read it.
        let _ = stdin.write_all(&input);
    });
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading_err = std::thread::spawn(move || {
        let mut all = Vec::new();
        err.read_to_end(&mut all).map(|_| all)
    });
    let reading_out = std::thread::spawn(move || {
        let mut all = Vec::new();
        out.read_to_end(&mut all).map(|_| all)
    });
    let status = ended(&mut child);
    feeding.join().unwrap();
    let output = Output {
        status,
        stdout: reading_out.join().unwrap().unwrap(),
        stderr: reading_err.join().unwrap().unwrap(),
    };
    Ran::of(&output)
}

/// Waits for the end of a process; kills one that doesn't end.
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the command didn't end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a process a signal by its number's name.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Looks until a condition holds. For what sends no signals.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} took more than {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A queue's name that no other test has.
pub(crate) fn fresh(word: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{word}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Does something on a queue of the shared server, as a user of the library would.
pub(crate) fn with_queue<T>(name: &str, act: impl AsyncFnOnce(Queue) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bus = Bus::connect(&Valkey::of_this_process().url()).await.unwrap();
        let done = act(bus.queue(name).unwrap()).await;
        bus.close().await;
        done
    })
}
