//! A server goes with its owner, also when the owner has no chance to say goodbye.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use emq_testkit::Valkey;

type Test = Result<(), Box<dyn std::error::Error>>;

/// Set in the process that plays the owner: how the server shall be when the owner is killed.
const ROLE: &str = "EMQ_TESTKIT_TEST_OWNER";
/// Only bounds a failure.
const SOON: Duration = Duration::from_secs(60);

/// This test binary once more, as an owner, with temporary files below `tmp`.
fn owner(test: &str, role: &str, tmp: &Path) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, role)
        .env("TMPDIR", tmp)
        .env_remove("EMQ_TESTKIT_TALLY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

/// Starts a server, says its port, and never ends by itself.
fn play_owner(role: &str) -> Test {
    let valkey = Valkey::start()?;
    match role {
        "restarted" => valkey.restart()?,
        "paused" => {}
        "killed" => {
            valkey.kill9()?;
            valkey.start_again()?;
        }
        _ => {}
    }
    // On a line of its own: the test harness writes to the same output.
    let mut parent = std::io::stdout();
    write!(parent, "\nport {}\n", valkey.port())?;
    parent.flush()?;
    if role == "paused" {
        // Once the parent's connection is taken up, it says so.
        std::io::stdin().read_line(&mut String::new())?;
        valkey.pause()?;
        writeln!(parent, "paused")?;
    }
    loop {
        thread::park();
    }
}

#[test]
fn a_killed_owner_takes_its_server_along() -> Test {
    if let Ok(role) = std::env::var(ROLE) {
        return play_owner(&role);
    }
    for role in ["started", "restarted", "killed", "paused"] {
        let tmp = tempfile::tempdir()?;
        let mut owner = owner("a_killed_owner_takes_its_server_along", role, tmp.path())?;
        let mut lines = BufReader::new(owner.stdout.take().ok_or("no output")?).lines();
        let port: u16 = loop {
            let line = lines.next().ok_or("the owner ended early")??;
            if let Some(port) = line.strip_prefix("port ") {
                break port.parse()?;
            }
        };
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"PING\r\n")?;
        let mut pong = [0; 7];
        stream.read_exact(&mut pong)?;
        assert_eq!(&pong, b"+PONG\r\n");
        if role == "paused" {
            owner.stdin.as_mut().ok_or("no input")?.write_all(b"taken up\n")?;
            assert_eq!(lines.next().ok_or("the owner ended early")??, "paused");
        }
        assert_ne!(processes_in(tmp.path())?, 0);

        owner.kill()?;
        owner.wait()?;
        // The kernel closes a dead server's connections: no need to look for its pid.
        stream.set_read_timeout(Some(SOON))?;
        let end = stream.read(&mut pong);
        let closed = match &end {
            Ok(count) => *count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(closed, "{role}: the server still runs: {end:?}");
        await_none_in(tmp.path())?;
        assert!(!has_server_dir(tmp.path())?, "{role}: the directory is still there");
    }
    Ok(())
}

#[test]
fn an_owner_killed_at_any_moment_of_the_start_leaves_no_process() -> Test {
    if let Ok(role) = std::env::var(ROLE) {
        return play_owner(&role);
    }
    for step in 0..12 {
        let tmp = tempfile::tempdir()?;
        let test = "an_owner_killed_at_any_moment_of_the_start_leaves_no_process";
        let mut owner = owner(test, "started", tmp.path())?;
        thread::sleep(Duration::from_millis(step * 4)); // The moment varies; any will do.
        owner.kill()?;
        owner.wait()?;
        await_none_in(tmp.path())?;
    }
    Ok(())
}

/// Waits until no process has its working directory below `tmp`.
fn await_none_in(tmp: &Path) -> Test {
    let deadline = Instant::now() + SOON;
    while processes_in(tmp)? != 0 {
        assert!(Instant::now() < deadline, "a process outlived its owner");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn processes_in(tmp: &Path) -> std::io::Result<usize> {
    let tmp = tmp.canonicalize()?;
    let links = fs::read_dir("/proc")?
        .filter_map(|entry| fs::read_link(entry.ok()?.path().join("cwd")).ok());
    Ok(links.filter(|cwd| cwd.starts_with(&tmp)).count())
}

fn has_server_dir(tmp: &Path) -> std::io::Result<bool> {
    let mut entries = fs::read_dir(tmp)?.filter_map(Result::ok);
    Ok(entries.any(|entry| entry.file_name().to_string_lossy().starts_with("emq-valkey-")))
}
