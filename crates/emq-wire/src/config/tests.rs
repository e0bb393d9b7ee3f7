use std::error::Error;
use std::time::Duration;

use super::*;

fn read(url: &str) -> Config {
    url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refused(url: &str) -> ConfigError {
    url.parse::<Config>().err().unwrap_or_else(|| panic!("{url} was accepted"))
}

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp { host: host.into(), port }
}

fn tls(host: &str, port: u16) -> Address {
    Address::Tls { host: host.into(), port }
}

#[test]
fn addresses() {
    for (url, address, database) in [
        ("valkey://localhost", tcp("localhost", 6379), 0),
        ("valkey://localhost/", tcp("localhost", 6379), 0),
        ("valkey://localhost:7000", tcp("localhost", 7000), 0),
        ("valkey://localhost:7000/3", tcp("localhost", 7000), 3),
        ("redis://10.0.0.1:6380/15", tcp("10.0.0.1", 6380), 15),
        ("VALKEY://queue_one.internal", tcp("queue_one.internal", 6379), 0),
        ("valkey://[::1]", tcp("::1", 6379), 0),
        ("valkey://[2001:db8::7]:6390/1", tcp("2001:db8::7", 6390), 1),
        ("valkeys://bus.example", tls("bus.example", 6379), 0),
        ("rediss://bus.example:6390/2", tls("bus.example", 6390), 2),
        ("valkey+unix:///run/valkey.sock", Address::Unix("/run/valkey.sock".into()), 0),
        ("redis+unix:///run/valkey.sock?db=4", Address::Unix("/run/valkey.sock".into()), 4),
        ("unix:///run/a%20b%3F.sock", Address::Unix("/run/a b?.sock".into()), 0),
    ] {
        let config = read(url);
        assert_eq!(config.address, address, "{url}");
        assert_eq!(config.database, database, "{url}");
        assert_eq!(config.credentials, None, "{url}");
    }
}

#[test]
fn credentials() {
    for (url, user, password) in [
        ("valkey://app:secret@h", Some("app"), "secret"),
        ("valkey://:secret@h:1/2", None, "secret"),
        ("valkey://app:p%40ss%2Fw%3Frd%23%3A@h", Some("app"), "p@ss/w?rd#:"),
        ("valkey://a%3Ab:c:d@h", Some("a:b"), "c:d"),
        ("valkeys://app:gr%C3%BCn@h", Some("app"), "grün"),
        ("valkey+unix:///s?password=secret", None, "secret"),
        ("valkey+unix:///s?user=app&password=a%26b%40", Some("app"), "a&b@"),
        ("valkey+unix:///s?password=a+b", None, "a+b"),
    ] {
        let credentials = read(url).credentials.unwrap_or_else(|| panic!("{url}: none"));
        assert_eq!(credentials.user.as_deref(), user, "{url}");
        assert_eq!(credentials.password, password, "{url}");
    }
}

#[test]
fn options() {
    let defaults = read("valkey://h");
    assert_eq!(defaults.protocol, Protocol::Resp2);
    assert_eq!(defaults.response_timeout, None);

    let config = read(
        "valkey://h/1?protocol=auto&client_name=desk-7&connect_timeout_ms=250\
         &response_timeout_ms=1500&heartbeat_ms=3000&max_in_flight=32",
    );
    assert_eq!(config.database, 1);
    assert_eq!(config.protocol, Protocol::Auto);
    assert_eq!(config.client_name.as_deref(), Some("desk-7"));
    assert_eq!(config.connect_timeout, Duration::from_millis(250));
    assert_eq!(config.response_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(config.heartbeat, Duration::from_secs(3));
    assert_eq!(config.max_in_flight, 32);

    assert_eq!(read("valkey://h?protocol=2").protocol, Protocol::Resp2);
    assert_eq!(read("valkey+unix:///s?protocol=3").protocol, Protocol::Resp3);
    assert_eq!(read("valkey://h?").address, tcp("h", 6379));
}

#[test]
fn refusals() {
    let option = |name: &str| ConfigError::UnknownOption { name: name.into() };
    let value = |name: &str, wanted| ConfigError::OptionValue { name: name.into(), wanted };
    let millis = "a whole number of milliseconds";
    for (url, error) in [
        ("http://h", ConfigError::Scheme),
        ("localhost:6379", ConfigError::Scheme),
        ("app:secret@h:6379", ConfigError::Scheme),
        ("valkey:///2", ConfigError::MissingHost),
        ("valkey:h", ConfigError::MissingHost),
        ("valkey://h/two", ConfigError::Database),
        ("valkey://h/-1", ConfigError::Database),
        ("valkey://h/1/2", ConfigError::Database),
        ("valkey://h/99999999999", ConfigError::Database),
        ("valkey+unix:///s?db=x", ConfigError::Database),
        ("valkey://app@h", ConfigError::UserWithoutPassword),
        ("valkey+unix:///s?user=app", ConfigError::UserWithoutPassword),
        ("valkey://h/1#x", ConfigError::Fragment),
        ("valkey+unix://host/s", ConfigError::UnixHost),
        ("valkey+unix:///", ConfigError::UnixPath),
        ("unix:s", ConfigError::UnixPath),
        ("valkey://app:%FF@h", ConfigError::Encoding { part: "password" }),
        ("valkey://h?db=1", option("db")),
        ("valkey://h?password=x", option("password")),
        ("valkey://h?timeout=1", option("timeout")),
        ("valkey://h?Protocol=2", option("Protocol")),
        (
            "valkey://h?protocol=2&protocol=3",
            ConfigError::RepeatedOption { name: "protocol".into() },
        ),
        ("valkey://h?protocol=4", value("protocol", "2, 3 or auto")),
        ("valkey://h?protocol", value("protocol", "2, 3 or auto")),
        ("valkey://h?heartbeat_ms=1s", value("heartbeat_ms", millis)),
        ("valkey://h?connect_timeout_ms=+5", value("connect_timeout_ms", millis)),
        ("valkey://h?connect_timeout_ms=", value("connect_timeout_ms", millis)),
        ("valkey://h?max_in_flight=-1", value("max_in_flight", "a whole number")),
        ("valkey://h?max_in_flight=0", ConfigError::ZeroBound { what: "max_in_flight" }),
        ("valkey://h?heartbeat_ms=0", ConfigError::ZeroBound { what: "heartbeat" }),
        ("valkey://h?response_timeout_ms=0", ConfigError::ZeroBound { what: "response_timeout" }),
        ("valkey://h?client_name=a%20b", ConfigError::ClientName),
        ("valkey://h?client_name=", ConfigError::ClientName),
    ] {
        assert_eq!(refused(url), error, "{url}");
    }
    for url in
        ["", "localhost", "valkey://h:port", "valkey://h:70000", "valkey://[::1", "valkey://a b"]
    {
        assert!(matches!(refused(url), ConfigError::Url { .. }), "{url}");
    }
}

/// Passwords as people type them, in URLs that can't be read or can.
#[test]
fn no_error_and_no_debug_shows_a_secret() {
    for url in [
        "valkey://app:hunter2/hunter2@h",
        "valkey://app:1/hunter2@h/0",
        "valkey://app:hunter2?hunter2@h",
        "valkey://app:6379?hunter2=hunter2@h",
        "valkey://app:6379#hunter2@h",
        "valkey://:hunter2@h:port",
        "valkey://:hunter2@",
        "valkey://:hunter2@[h",
        "hunter2:hunter2@h",
        "valkey://:hunter2@h/hunter2",
        "valkey://:hunter2%FF@h",
        "valkey://h?protocol=hunter2",
        "valkey+unix:///s?password=hunter2&protocol=9",
        "valkey+unix:///s?password=hunter2&db=hunter2",
        "valkey+unix://app:hunter2@/s",
    ] {
        let error = refused(url);
        let mut shown = format!("{error:?} {error}");
        let mut cause = error.source();
        while let Some(inner) = cause {
            shown.push_str(&inner.to_string());
            cause = inner.source();
        }
        assert!(!shown.contains("hunter2"), "{url}: {shown}");
    }
    for url in ["valkey://app:hunter2@h", "valkeys://:hunter2@h/1", "unix:///s?password=hunter2"] {
        let config = read(url);
        let shown = format!("{config:?} {config:#?} {config} {}", config.address());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn a_url_that_is_displayed_reads_back() {
    for url in
        ["valkey://h:7000", "valkeys://[::1]:7000", "valkey+unix:///run/s", "valkey://[::1]:1"]
    {
        let config = read(url);
        assert_eq!(read(&config.address().to_string()).address, config.address, "{url}");
    }
}

#[test]
fn validation_beyond_the_url() {
    let ok = || read("valkey://h");
    assert_eq!(ok().validate(), Ok(()));
    assert_eq!(read("unix:///s").validate(), Ok(()));
    assert_eq!(read("valkeys://h").validate(), Err(ConfigError::Tls));
    assert_eq!(Config::new(tcp("", 1)).validate(), Err(ConfigError::MissingHost));

    let second = Duration::from_secs(1);
    let reconnect = Reconnect::default();
    let limits = Limits::default();
    for (config, what) in [
        (ok().connect_timeout(Duration::ZERO), "connect_timeout"),
        (ok().response_timeout(Some(Duration::ZERO)), "response_timeout"),
        (ok().heartbeat(Duration::ZERO, second), "heartbeat"),
        (ok().heartbeat(second, Duration::ZERO), "heartbeat_timeout"),
        (ok().max_in_flight(0), "max_in_flight"),
        (ok().max_queued_bytes(0), "max_queued_bytes"),
        (ok().reconnect(Reconnect { base: Duration::ZERO, ..reconnect }), "reconnect.base"),
        (ok().limits(Limits { max_depth: 0, ..limits }), "limits.max_depth"),
        (ok().limits(Limits { max_bulk_bytes: 0, ..limits }), "limits.max_bulk_bytes"),
    ] {
        assert_eq!(config.validate(), Err(ConfigError::ZeroBound { what }));
    }
    let inverted = Reconnect { base: second, cap: second / 2, ..reconnect };
    assert_eq!(ok().reconnect(inverted).validate(), Err(ConfigError::ReconnectCap));
    for name in ["", "two words", "line\nbreak", "grün", "tab\t"] {
        assert_eq!(ok().client_name(name).validate(), Err(ConfigError::ClientName), "{name:?}");
    }
}
