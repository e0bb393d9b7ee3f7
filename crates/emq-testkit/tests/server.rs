//! What a server of one's own can be asked to do.

use emq_testkit::{AdminError, Fsync, StartError, Valkey};

type Test = Result<(), Box<dyn std::error::Error>>;

#[test]
fn it_answers_and_is_volatile() -> Test {
    let valkey = Valkey::start()?;
    assert_eq!(valkey.cli(&["PING"])?, "PONG");
    assert_eq!(valkey.cli(&["CONFIG", "GET", "save"])?, "save\n");
    assert_eq!(valkey.cli(&["CONFIG", "GET", "appendonly"])?, "appendonly\nno");
    assert!(valkey.version()?.split('.').count() >= 2);
    assert!(valkey.log().contains("Ready to accept connections"));
    assert_eq!(valkey.url(), format!("valkey://127.0.0.1:{}", valkey.port()));
    valkey.stop()?;
    Ok(())
}

#[test]
fn stop_leaves_neither_process_nor_directory() -> Test {
    let valkey = Valkey::start()?;
    let dir = valkey.cli(&["CONFIG", "GET", "dir"])?.lines().nth(1).map(str::to_owned);
    let dir = dir.ok_or("no dir")?;
    let pid = valkey.pid().ok_or("no pid")?;
    assert!(std::path::Path::new(&dir).exists());
    valkey.stop()?;
    assert!(!std::path::Path::new(&dir).exists());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    Ok(())
}

#[test]
fn a_volatile_server_forgets_and_a_durable_one_remembers() -> Test {
    let volatile = Valkey::start()?;
    let durable = Valkey::builder().append_only(Fsync::Always).start()?;
    for (valkey, found) in [(&volatile, "(nil)"), (&durable, "1")] {
        valkey.cli(&["SET", "k", "1"])?;
        let (port, pid) = (valkey.port(), valkey.pid());
        valkey.kill9()?;
        assert_eq!(valkey.pid(), None);
        assert!(matches!(valkey.cli(&["PING"]), Err(AdminError::Io(_))));
        valkey.start_again()?;
        assert_eq!(valkey.cli(&["GET", "k"])?, found);
        assert_eq!(valkey.port(), port);
        assert_ne!(valkey.pid(), pid);
        assert!(matches!(valkey.start_again(), Err(StartError::Running)));
    }
    durable.restart()?;
    assert_eq!(durable.cli(&["GET", "k"])?, "1");
    assert!(durable.log().contains("SIGTERM"), "a restart is an orderly one");
    Ok(())
}

#[test]
fn a_server_that_ended_by_itself_can_be_started_again() -> Test {
    let valkey = Valkey::start()?;
    // It may close the connection before it answers, or refuse nothing: only its end matters.
    let _ = valkey.cli(&["SHUTDOWN", "NOSAVE"]);
    while valkey.pid().is_some() {
        std::thread::yield_now();
    }
    assert!(matches!(valkey.pause(), Err(AdminError::NotRunning)));
    valkey.start_again()?;
    assert_eq!(valkey.cli(&["PING"])?, "PONG");
    Ok(())
}

#[test]
fn a_paused_server_keeps_its_connections_and_answers_later() -> Test {
    use std::io::{Read, Write};
    let valkey = Valkey::start()?;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", valkey.port()))?;
    valkey.pause()?;
    stream.write_all(b"PING\r\n")?;
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", valkey.pid().ok_or("no pid")?))?;
    assert!(stat.contains(") T "), "{stat}");
    valkey.resume()?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"+PONG\r\n");
    // A paused one can be killed and restarted too.
    valkey.pause()?;
    valkey.restart()?;
    assert_eq!(valkey.cli(&["PING"])?, "PONG");
    Ok(())
}

#[test]
fn a_full_server_refuses_writes() -> Test {
    let valkey = Valkey::builder().maxmemory(4 << 20).start()?;
    let value = "x".repeat(1 << 20);
    let refusal = (0..8).find_map(|n| valkey.cli(&["SET", &format!("k{n}"), &value]).err());
    assert!(
        matches!(&refusal, Some(AdminError::Refused(text)) if text.starts_with("OOM")),
        "{refusal:?}"
    );
    Ok(())
}

#[test]
fn passwords_users_and_lines_of_ones_own() -> Test {
    let password = "p@ss \"word\"\\ %é";
    let valkey = Valkey::builder()
        .requirepass(password)
        .acl_user("ann", "on >secret ~emq:* +@all")
        .config("hz 50")
        .start()?;
    assert_eq!(valkey.cli(&["CONFIG", "GET", "hz"])?, "hz\n50");
    assert_eq!(valkey.cli(&["ACL", "WHOAMI"])?, "default");
    assert!(valkey.cli(&["ACL", "USERS"])?.contains("ann"));
    assert_eq!(
        valkey.url_as("ann", "secret"),
        format!("valkey://ann:secret@127.0.0.1:{}", valkey.port())
    );
    assert!(!format!("{valkey:?}").contains("p@ss"));
    valkey.restart()?;
    assert_eq!(valkey.cli(&["PING"])?, "PONG");
    Ok(())
}

#[test]
fn unix_sockets_beside_and_instead_of_a_port() -> Test {
    let both = Valkey::builder().unix_socket(true).start()?;
    assert!(both.unix_url().is_some_and(|url| url.starts_with("valkey+unix:///")));
    assert_ne!(both.port(), 0);
    let only = Valkey::builder().unix_socket_only().start()?;
    assert_eq!(only.port(), 0);
    assert_eq!(Some(only.url()), only.unix_url());
    assert_eq!(only.cli(&["PING"])?, "PONG");
    only.kill9()?;
    only.start_again()?;
    assert_eq!(only.cli(&["PING"])?, "PONG");
    Ok(())
}

#[test]
fn a_refused_configuration_says_why() {
    let error = Valkey::builder().config("no-such-line yes").start().unwrap_err();
    assert!(
        matches!(&error, StartError::Exited { log } if log.contains("no-such-line")),
        "{error}"
    );
}

#[test]
fn a_taken_port_is_refused_and_many_starts_at_once_get_their_own() -> Test {
    let servers: Result<Vec<_>, _> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(Valkey::start)).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let servers = servers?;
    for valkey in &servers {
        let id = valkey.cli(&["INFO", "server"])?;
        let pid = valkey.pid().ok_or("no pid")?;
        assert!(id.contains(&format!("process_id:{pid}\r")), "another server answers at this port");
    }
    let taken = Valkey::builder().port(servers[0].port()).start();
    assert!(matches!(taken, Err(StartError::NoPort { .. })));
    // A killed server keeps its port: nobody else is given it before the restart.
    servers[0].kill9()?;
    let taken = Valkey::builder().port(servers[0].port()).start();
    assert!(matches!(taken, Err(StartError::NoPort { .. })));
    servers[0].start_again()?;
    Ok(())
}
