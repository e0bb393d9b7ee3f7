//! The same handle over a container. Built only with the feature `containers`, which asks for an
//! engine: without one these tests fail and say so.
#![cfg(feature = "containers")]

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
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
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
