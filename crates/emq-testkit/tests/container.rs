//! The same handle over a container. Built only with the feature `containers`, which asks for an
//! engine: without one these tests fail and say so.
#![cfg(feature = "containers")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use emq_testkit::{AdminError, StartError, Valkey};

type Test = Result<(), Box<dyn std::error::Error>>;

#[test]
fn a_server_in_a_container_is_handled_like_another() -> Test {
    let valkey = Valkey::in_container()?;
    assert_eq!(valkey.cli(&["PING"])?, "PONG");
    assert_eq!(valkey.pid(), None);
    assert!(valkey.version()?.split('.').count() >= 2);
    assert!(valkey.log().contains("Ready to accept connections"));
    let config = valkey.cli(&["CONFIG", "GET", "save"])?;
    assert_eq!(config, "save\n", "our configuration is the one in force");

    valkey.cli(&["SET", "k", "1"])?;
    valkey.pause()?;
    valkey.resume()?;
    assert_eq!(valkey.cli(&["GET", "k"])?, "1");
    assert!(matches!(valkey.start_again(), Err(StartError::Running)));

    let port = valkey.port();
    valkey.kill9()?;
    assert!(matches!(valkey.cli(&["PING"]), Err(AdminError::Io(_))));
    valkey.start_again()?;
    assert_eq!(valkey.port(), port);
    assert_eq!(valkey.cli(&["GET", "k"])?, "(nil)");
    valkey.pause()?;
    valkey.restart()?;
    assert_eq!(valkey.cli(&["PING"])?, "PONG");
    valkey.stop()?;
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    Ok(())
}

#[test]
fn it_works_inside_a_runtime_too() -> Test {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let valkey = Valkey::in_container()?;
        assert_eq!(valkey.cli(&["PING"])?, "PONG");
        valkey.stop()?;
        Ok(())
    })
}

/// Needs the engine's command-line client too: the watchdog removes the container with it.
#[test]
fn a_killed_owner_takes_its_container_along() -> Test {
    const ROLE: &str = "EMQ_TESTKIT_TEST_OWNER";
    if std::env::var_os(ROLE).is_some() {
        let valkey = Valkey::in_container()?;
        let mut parent = std::io::stdout();
        write!(parent, "\nport {}\n", valkey.port())?;
        parent.flush()?;
        loop {
            std::thread::park();
        }
    }
    let mut owner = Command::new(std::env::current_exe()?)
        .args(["--exact", "a_killed_owner_takes_its_container_along", "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(owner.stdout.take().ok_or("no output")?).lines();
    let port: u16 = loop {
        let line = lines.next().ok_or("the owner ended early")??;
        if let Some(port) = line.strip_prefix("port ") {
            break port.parse()?;
        }
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    owner.kill()?;
    owner.wait()?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let end = stream.read(&mut [0; 1]);
    let closed = match &end {
        Ok(count) => *count == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(closed, "the container still runs: {end:?}");
    Ok(())
}
