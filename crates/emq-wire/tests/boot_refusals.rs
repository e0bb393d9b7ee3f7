//! Each refusal at connect is typed, fatal, and free of secrets.

mod support;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use emq_testkit::Valkey;
use emq_wire::{
    BlockingLane, BootLink, Config, Connection, ConnectionState, Credentials, DurableLane,
    DurableWait, Handshake, HandshakeError, HandshakeFuture, Pipeline, Protocol, Refusal, Script,
    WireError,
};
use support::peer::Peer;
use support::{PATIENCE, Test, client_id, cmd, config, soon, state_is, text};

/// The step and the class of a refusal by the server.
fn refused(outcome: Result<Connection, WireError>) -> (&'static str, String) {
    match outcome {
        Err(WireError::Boot { step, source }) => (step, source.class().to_owned()),
        other => panic!("{other:?}"),
    }
}

fn hides(secret: &str, error: &dyn Error) {
    let mut texts = vec![format!("{error:?}")];
    let mut level = Some(error);
    while let Some(error) = level {
        texts.push(error.to_string());
        level = error.source();
    }
    assert!(texts.iter().all(|text| !text.contains(secret)), "{texts:?}");
}

#[tokio::test]
async fn each_rung_is_refused_by_its_name() -> Test {
    let valkey = Valkey::builder()
        .requirepass("secret")
        .acl_user("mute", "on >pw ~* +get")
        .acl_user("anon", "on >pw ~* +@all -client|setname")
        .acl_user("deaf", "on >pw ~* +@all -ping")
        .start()?;
    let base = config(&valkey);
    let plain = support::patient(format!("valkey://127.0.0.1:{}", valkey.port()).parse()?);
    let connect = Connection::connect;
    let outcome = connect(plain.clone()).await;
    assert_eq!(refused(outcome), ("CLIENT ID", "NOAUTH".into()));
    let outcome = connect(plain.clone().protocol(Protocol::Resp3)).await;
    assert_eq!(refused(outcome), ("HELLO", "NOAUTH".into()));
    for protocol in [Protocol::Resp2, Protocol::Resp3, Protocol::Auto] {
        let wrong = plain.clone().protocol(protocol).credentials(Credentials::password("wr0ng!"));
        let outcome = connect(wrong).await;
        hides("wr0ng!", outcome.as_ref().unwrap_err());
        let step = if protocol == Protocol::Resp2 { "AUTH" } else { "HELLO" };
        assert_eq!(refused(outcome), (step, "WRONGPASS".into()));
    }
    assert_eq!(refused(connect(base.clone().database(99)).await), ("SELECT", "ERR".into()));
    let mute = plain.clone().credentials(Credentials::new("mute", "pw"));
    assert_eq!(refused(connect(mute).await), ("CLIENT ID", "NOPERM".into()));
    let anon = plain.clone().credentials(Credentials::new("anon", "pw")).client_name("me");
    assert_eq!(refused(connect(anon).await), ("CLIENT SETNAME", "NOPERM".into()));
    // Only the probe is refused to this one, and a refusal is an answer too.
    let deaf = connect(plain.credentials(Credentials::new("deaf", "pw"))).await?;
    assert_eq!(text(&deaf.command(cmd("ECHO x")).await?), "x");
    Ok(())
}

#[tokio::test]
async fn a_server_without_hello_is_refused_or_spoken_to_in_resp2() -> Test {
    let closed =
        Valkey::builder().requirepass("s3cret").config("rename-command HELLO \"\"").start()?;
    let open = Valkey::builder()
        .acl_user("ann", "on >s3cret ~* +@all")
        .config("rename-command HELLO \"\"")
        .start()?;
    // The first says no more to a stranger than that it is one; the second repeats the arguments
    // of a command that it doesn't know.
    for (valkey, class) in [(&closed, "NOAUTH"), (&open, "ERR")] {
        let credentials = match class {
            "ERR" => Credentials::new("ann", "s3cret"),
            _ => Credentials::password("s3cret"),
        };
        let config = config(valkey).credentials(credentials);
        let strict = Connection::connect(config.clone().protocol(Protocol::Resp3)).await;
        hides("s3cret", strict.as_ref().unwrap_err());
        assert_eq!(refused(strict), ("HELLO", class.into()));
        let auto = Connection::connect(config.protocol(Protocol::Auto)).await?;
        assert_eq!(text(&auto.command(cmd("ECHO x")).await?), "x");
        let who = auto.command(cmd("ACL WHOAMI")).await?;
        assert_eq!(text(&who), if class == "ERR" { "ann" } else { "default" });
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_repeats_the_password_is_not_repeated() -> Test {
    let peer = Peer::listen().await;
    let config = peer.config().credentials(Credentials::password("s3cret"));
    let (outcome, ()) = tokio::join!(Connection::connect(config), async {
        let mut link = peer.accept().await;
        link.expect("AUTH s3cret").await;
        link.send("-ERR s3cret is no password, s3cret! with args beginning with: 's3c' \r\n").await;
        link.hung_up().await;
    });
    hides("s3cret", outcome.as_ref().unwrap_err());
    assert_eq!(refused(outcome), ("AUTH", "ERR".into()));
    Ok(())
}

#[tokio::test]
async fn resp3_is_spoken_where_it_is_asked_for() -> Test {
    let valkey = Valkey::start()?;
    valkey.cli(&["HSET", "h", "f", "v"])?;
    for (protocol, map) in
        [(Protocol::Resp2, false), (Protocol::Resp3, true), (Protocol::Auto, true)]
    {
        let connection = Connection::connect(config(&valkey).protocol(protocol)).await?;
        let reply = connection.command(cmd("HGETALL h")).await?;
        assert_eq!(matches!(reply, emq_wire::Reply::Map(_)), map, "{reply:?}");
    }
    Ok(())
}

/// Lets in who finds the version that it expects.
struct Fence;

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the version is {0:?}")]
struct WrongVersion(String);

impl Handshake for Fence {
    fn run<'a>(&'a self, link: &'a mut BootLink) -> HandshakeFuture<'a> {
        Box::pin(async move {
            let found = text(&link.call(cmd("GET version")).await?);
            match found.as_str() {
                "1" => Ok(()),
                _ => Err(HandshakeError::Refused(Refusal::new(WrongVersion(found)))),
            }
        })
    }
}

fn is_wrong<T: std::fmt::Debug>(outcome: Result<T, WireError>, version: &str) -> bool {
    match outcome {
        Err(WireError::Refused(refusal)) => {
            refusal.downcast_ref() == Some(&WrongVersion(version.to_owned()))
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_that_refuses_is_the_end_also_on_a_later_socket() -> Test {
    let valkey = Valkey::start()?;
    valkey.cli(&["SET", "version", "2"])?;
    let at_once = Connection::connect_with(config(&valkey), Arc::new(Fence)).await;
    assert!(is_wrong(at_once, "2"));
    valkey.cli(&["SET", "version", "1"])?;
    let connection = Connection::connect_with(config(&valkey), Arc::new(Fence)).await?;
    let id = client_id(&connection).await.to_string();
    valkey.cli(&["SET", "version", "3"])?;
    valkey.cli(&["CLIENT", "KILL", "ID", &id])?;
    state_is(&connection, ConnectionState::is_terminal).await;
    let state = connection.state().borrow().clone();
    let ConnectionState::Refused(error) = state else { panic!("{state:?}") };
    assert!(is_wrong::<()>(Err(error), "3"));
    // A server that would be let in now makes no difference.
    valkey.cli(&["SET", "version", "1"])?;
    let script = Script::new("one", "return 1");
    for _ in 0..2 {
        assert!(is_wrong(connection.command(cmd("GET k")).await, "3"));
        assert!(is_wrong(connection.pipeline(Pipeline::from_iter([cmd("GET k")])).await, "3"));
        assert!(is_wrong(connection.eval::<&str, &str>(&script, &[], &[]).await, "3"));
        assert!(is_wrong(connection.unblock(1).await, "3"));
    }
    assert_eq!(connection.in_flight(), 0);
    soon("the end", connection.close()).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lanes_refuse_for_good_too() -> Test {
    let valkey = Valkey::start()?;
    valkey.cli(&["SET", "version", "1"])?;
    let mut blocking = BlockingLane::connect_with(config(&valkey), Arc::new(Fence)).await?;
    let durable = DurableLane::connect_with(config(&valkey), Arc::new(Fence)).await?;
    valkey.cli(&["SET", "version", "9"])?;
    valkey.cli(&["CLIENT", "KILL", "TYPE", "normal"])?;
    let short = std::time::Duration::from_millis(1);
    let mut outcome = blocking.blpop("l", short).await;
    if matches!(outcome, Err(WireError::Disconnected { .. })) {
        outcome = blocking.blpop("l", short).await;
    }
    assert!(is_wrong(outcome, "9"));
    state_is(durable.connection(), ConnectionState::is_terminal).await;
    valkey.cli(&["SET", "version", "1"])?;
    assert!(is_wrong(blocking.blpop("l", short).await, "9"));
    let wait = DurableWait::Fsynced { timeout: PATIENCE };
    assert!(is_wrong(durable.call(Pipeline::from_iter([cmd("GET k")]), wait).await, "9"));
    Ok(())
}

/// Loads a script, and counts how often it was asked to.
#[derive(Default)]
struct Bundle(AtomicU32);

impl Handshake for Bundle {
    fn run<'a>(&'a self, link: &'a mut BootLink) -> HandshakeFuture<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { link.load(&[Script::new("one", "return 1")]).await })
    }
}

#[tokio::test]
async fn scripts_that_may_not_be_loaded_at_boot_are_a_refusal() -> Test {
    let valkey = Valkey::builder().acl_user("ann", "on >pw ~* +@all -script|load").start()?;
    let config: Config = support::patient(valkey.url_as("ann", "pw").parse()?);
    let bundle = Arc::new(Bundle::default());
    let outcome = Connection::connect_with(config, Arc::clone(&bundle) as _).await;
    let Err(WireError::Server { step: "SCRIPT LOAD", source }) = outcome else {
        panic!("{outcome:?}")
    };
    assert!(source.is("NOPERM"));
    assert_eq!(bundle.0.load(Ordering::SeqCst), 1, "asking again makes no difference");
    let peer = Peer::listen().await;
    let (outcome, ()) =
        tokio::join!(Connection::connect_with(peer.config(), Arc::new(Bundle::default())), async {
            let mut link = peer.serve().await;
            link.expect("SCRIPT LOAD return 1").await;
            link.send("-LOADING wait\r\n").await;
            let mut link = peer.serve().await;
            link.expect("SCRIPT LOAD return 1").await;
            link.send(format!("+{}\r\n", "0".repeat(40))).await;
            link.hung_up().await;
        });
    assert!(matches!(outcome, Err(WireError::ScriptDigest { .. })), "{outcome:?}");
    Ok(())
}
