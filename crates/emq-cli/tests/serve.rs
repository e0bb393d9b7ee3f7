//! `emq serve`: real requests, on real servers.

mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use emq_testkit::Valkey;
use watch::http::{Answer, Server};
use watch::{
    LONG, LONG_NAME, PATIENCE, admit, bury, bus_on, calls, commands, fill_lanes, tenant, until,
};

/// Reads the text format strictly: each series once, and after its metric's help and type.
fn series(text: &str) -> BTreeMap<String, f64> {
    let (mut typed, mut all) = (BTreeSet::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(matches!(kind, "gauge" | "counter"), "{line}");
            assert!(typed.insert(name.to_owned()), "{name} is told twice");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            assert!(typed.contains(name), "{line} has no type");
            assert!(all.insert(series.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    all
}

fn metric_names(text: &str) -> BTreeSet<String> {
    series(text).keys().map(|series| series.split('{').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn metrics_tell_every_state_of_every_queue() {
    let valkey = Valkey::start().unwrap();
    let bus = bus_on(&valkey).await;
    let mail = bus.queue("mail").unwrap();
    bury(&mail, "x", "no").await;
    admit(&mail, "held").await;
    let _held = mail.claim(LONG).await.unwrap().unwrap();
    admit(&mail, "waits").await;
    fill_lanes(&mail, 3).await;
    mail.lane(tenant(0)).pause().await.unwrap();
    mail.lane(tenant(1)).limit(2).await.unwrap();
    let _ = mail.enqueue_in("later", Duration::from_secs(300)).await.unwrap();
    bus.queue(LONG_NAME).unwrap().pause().await.unwrap();

    let server = Server::on(&valkey, &[]).await;
    let told = server.scrape_until("both queues", |told| told.sample("emq_queues") == Some(2.0));
    let told = told.await;
    assert_eq!(told.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let all = series(&told.body);
    let of = |metric: &str| all[&format!("{metric}{{queue=\"mail\"}}")];
    for (metric, value) in [
        ("emq_queue_waiting", 4.0),
        ("emq_queue_waiting_flat", 1.0),
        ("emq_queue_waiting_lanes", 3.0),
        ("emq_queue_waiting_complete", 1.0),
        ("emq_queue_in_flight", 1.0),
        ("emq_queue_scheduled", 1.0),
        ("emq_queue_dead", 1.0),
        ("emq_queue_paused", 0.0),
        ("emq_queue_lanes", 3.0),
        ("emq_queue_lanes_ready", 2.0),
        ("emq_queue_lanes_paused", 1.0),
        ("emq_queue_lanes_leased", 0.0),
        ("emq_queue_lanes_limited", 1.0),
        ("emq_queue_lease_overdue_seconds", 0.0),
        ("emq_queue_schedule_overdue_seconds", 0.0),
    ] {
        assert_eq!(of(metric), value, "{metric}");
    }
    assert!((0.0..600.0).contains(&of("emq_queue_oldest_wait_seconds")));
    assert_eq!(told.sample(&format!("emq_queue_paused{{queue=\"{LONG_NAME}\"}}")), Some(1.0));
    assert_eq!(told.sample("emq_up"), Some(1.0));

    // A queue that comes later is found, and one that is gone isn't told any more.
    admit(&bus.queue("new").unwrap(), "x").await;
    bus.queue(LONG_NAME).unwrap().resume().await.unwrap();
    let found =
        |told: &Answer| told.body.contains("queue=\"new\"") && !told.body.contains(LONG_NAME);
    server.scrape_until("the change", found).await;
}

#[tokio::test]
async fn what_nobody_takes_back_is_overdue() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "held").await;
    let _held = mail.claim(Duration::from_millis(1)).await.unwrap().unwrap();
    let _ = mail.enqueue_in("later", Duration::from_millis(1)).await.unwrap();
    let server = Server::on(&valkey, &["mail"]).await;
    let overdue = |told: &Answer, what: &str| {
        told.sample(&format!("emq_queue_{what}_overdue_seconds{{queue=\"mail\"}}")) > Some(0.0)
    };
    server
        .scrape_until("both overdue", |told| overdue(told, "lease") && overdue(told, "schedule"))
        .await;
}

#[tokio::test]
async fn many_scrapers_cost_one_reading_a_second() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    fill_lanes(&mail, 10_000).await;
    let server = Server::on(&valkey, &["mail"]).await;
    server.scrape_until("the queue", |told| told.body.contains("mail")).await;
    let read_so_far = || server.get("/metrics").sample("emq_serve_readings_total").unwrap();
    let (start, readings) = (Instant::now(), read_so_far());
    let (clocks, all) = (calls(&valkey, "time"), commands(&valkey));
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(server.get("/metrics").status, 200);
                }
            });
        }
    });
    let readings = read_so_far() - readings;
    let seconds = start.elapsed().as_secs_f64();
    assert!(readings <= seconds + 1.0, "{readings} readings in {seconds} s");
    // A reading asks for the clock twice, and takes at most five hundred lanes by two reads.
    let (clocks, all) = (calls(&valkey, "time") - clocks, commands(&valkey) - all);
    assert!(clocks as f64 <= 2.0 * (readings + 1.0), "{clocks} looks in {readings} readings");
    assert!(all <= (clocks / 2 + 1) * (14 + 2 * 500 + 5) + 10, "{all} commands, {clocks} looks");
}

#[tokio::test]
async fn no_more_queues_are_told_than_allowed() {
    let valkey = Valkey::start().unwrap();
    let bus = bus_on(&valkey).await;
    for n in 0..30 {
        admit(&bus.queue(format!("q{n:02}")).unwrap(), "x").await;
    }
    let server = Server::on(&valkey, &["--queues-max", "10"]).await;
    let told = server.scrape_until("all", |told| told.sample("emq_queues") == Some(30.0)).await;
    assert_eq!(told.sample("emq_queues_left_out"), Some(20.0));
    assert_eq!(told.body.matches("emq_queue_dead{").count(), 10);
    let page = server.get("/");
    assert!(page.body.contains("20 more queues are not shown"), "{}", page.body);
    // A queue that isn't told has its page all the same.
    assert_eq!(server.get("/queues/q29").status, 200);
}

#[tokio::test]
async fn a_queue_that_cant_be_read_hides_no_other() {
    let valkey = Valkey::start().unwrap();
    let bus = bus_on(&valkey).await;
    admit(&bus.queue("mail").unwrap(), "x").await;
    valkey.cli(&["SET", "emq:{torn}:pending", "no sorted set"]).unwrap();
    let server = Server::on(&valkey, &[]).await;
    let told = server.scrape_until("both", |told| told.sample("emq_queues") == Some(2.0)).await;
    assert_eq!(told.sample("emq_queues_unreadable"), Some(1.0));
    assert_eq!(told.sample("emq_queue_waiting{queue=\"mail\"}"), Some(1.0));
    let page = server.get("/");
    assert!(page.status == 200 && page.body.contains("Not readable: "), "{}", page.body);
    let page = server.get("/queues/torn");
    assert!(page.status == 500 && page.body.contains("WRONGTYPE"), "{}", page.body);
    assert_eq!(server.get("/readyz").status, 200);
}

#[tokio::test]
async fn alive_without_a_server_and_ready_only_with_one() {
    let valkey = Valkey::start().unwrap();
    valkey.kill9().unwrap();
    let server = Server::without_bus(&valkey, &[]);
    let down = |server: &Server| {
        assert_eq!(server.get("/healthz").status, 200);
        let ready = server.get("/readyz");
        assert_eq!(ready.status, 503);
        assert!(ready.body.starts_with("not ready: "), "{}", ready.body);
        let told = server.get("/metrics");
        assert_eq!((told.status, told.sample("emq_up")), (200, Some(0.0)));
        assert_eq!(server.get("/").status, 503);
        assert_eq!(server.get("/queues/mail").status, 503);
    };
    down(&server);
    valkey.start_again().unwrap();
    let is_ready = async || server.get("/readyz").status == 200;
    until("the server is found", is_ready).await;
    server.scrape_until("up", |told| told.sample("emq_up") == Some(1.0)).await;
    valkey.kill9().unwrap();
    until("the loss", async || server.get("/readyz").status == 503).await;
    server.scrape_until("down", |told| told.sample("emq_up") == Some(0.0)).await;
    down(&server);
    valkey.start_again().unwrap();
    until("the return", is_ready).await;
    // A server that is there and says nothing isn't ready either.
    valkey.pause().unwrap();
    assert_eq!(server.get("/readyz").status, 503);
    valkey.resume().unwrap();
    until("its answer", is_ready).await;
}

#[tokio::test]
async fn a_server_of_another_version_ends_it() {
    let valkey = Valkey::start().unwrap();
    valkey.cli(&["SET", "{emq}:version", "echomq:9.9.9"]).unwrap();
    let mut server = Server::without_bus(&valkey, &[]);
    assert!(!server.wait().success());
    let said = server.said();
    let last = said.last().unwrap();
    assert!(last.starts_with("emq: ") && last.contains("9.9.9"), "{said:?}");

    // And so does one that took the keyspace while nobody looked.
    valkey.cli(&["DEL", "{emq}:version"]).unwrap();
    let mut server = Server::on(&valkey, &[]).await;
    valkey.cli(&["SET", "{emq}:version", "echomq:8.8.8"]).unwrap();
    valkey.cli(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    until("its end", async || server.asks_in_vain("/readyz")).await;
    assert!(!server.wait().success());
    let said = server.said();
    assert!(said.last().unwrap().contains("8.8.8"), "{said:?}");
}

#[tokio::test]
async fn bad_arguments_are_one_line() {
    let valkey = Valkey::start().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let url = valkey.url();
    for (args, code) in [
        (&["--url", &url, "serve", "no queue"][..], 2),
        (&["--url", "nonsense", "serve", "--listen", "127.0.0.1:0"], 2),
        (&["--url", &url, "serve", "--listen", &taken], 1),
    ] {
        let emq = Command::new(env!("CARGO_BIN_EXE_emq")).args(args).output().unwrap();
        let said = String::from_utf8(emq.stderr).unwrap();
        assert_eq!(emq.status.code(), Some(code), "{args:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[tokio::test]
async fn another_than_the_loopback_address_is_warned_of() {
    let valkey = Valkey::start().unwrap();
    let url = valkey.url();
    let open = |listen: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_emq"));
        command.args(["--url", &url, "serve", "--listen", listen]);
        let mut server = Server::spawn(command);
        let answer = server.ask("GET", "/healthz", "Host: bus.example\r\n");
        server.signal("TERM");
        assert!(server.wait().success());
        (answer.status, server.said())
    };
    let (status, said) = open("0.0.0.0:0");
    assert_eq!(status, 200);
    assert!(said.iter().any(|line| line.contains("warning: ")), "{said:?}");
    let (status, said) = open("127.0.0.1:0");
    assert_eq!((status, said.len()), (421, 1), "{said:?}");
}

#[tokio::test]
async fn a_signal_ends_it_once_requests_under_way_are_answered() {
    let valkey = Valkey::start().unwrap();
    for signal in ["TERM", "INT"] {
        let mut server = Server::on(&valkey, &[]).await;
        // An idle connection doesn't hold it up.
        let _idle = TcpStream::connect(server.address).unwrap();
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The question can't be answered before the server says something.
        valkey.pause().unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        until("the request is read", async || unread_bytes(&server, &stream) == Some(0)).await;
        server.signal(signal);
        until("no new connection", async || TcpStream::connect(server.address).is_err()).await;
        valkey.resume().unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK") || answer.contains("503"), "{answer}");
        assert!(server.wait().success(), "{signal}");
    }
}

/// What the kernel holds of a stream's bytes that the server hasn't read.
fn unread_bytes(server: &Server, stream: &TcpStream) -> Option<u64> {
    let port = |port: u16| format!(":{port:04X}");
    let (ours, theirs) = (stream.local_addr().unwrap().port(), server.address.port());
    let table = BufReader::new(std::fs::File::open("/proc/net/tcp").unwrap());
    for line in table.lines().map_while(Result::ok) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields[1].ends_with(&port(theirs)) && fields[2].ends_with(&port(ours)) {
            let (_, unread) = fields[4].split_once(':').unwrap();
            return u64::from_str_radix(unread, 16).ok();
        }
    }
    None
}

/// A file of the project's docs; `None` in a package that was made without them.
fn doc(path: &str) -> Option<String> {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(docs.join(path)).ok()
}

#[tokio::test]
#[allow(clippy::print_stdout, reason = "what was not checked must be seen")]
async fn the_guide_and_the_dashboard_name_what_there_is() {
    let (Some(guide), Some(board)) = (doc("guides/watching.md"), doc("dashboards/echomq.json"))
    else {
        return println!("skipped: the docs are not beside this package");
    };
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "x").await;
    let server = Server::on(&valkey, &["mail"]).await;
    let told = server.scrape_until("the queue", |told| told.body.contains("mail")).await;
    let names = metric_names(&told.body);

    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    let mut asked = BTreeSet::new();
    expressions(&board, &mut asked);
    assert!(asked.len() >= 8, "{asked:?}");
    for name in &asked {
        assert!(names.contains(name), "the dashboard asks for {name}");
    }
    // The guide's table has each metric, and none besides.
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `emq_"));
    let listed: BTreeSet<String> =
        rows.map(|row| format!("emq_{}", row.split('`').next().unwrap())).collect();
    assert_eq!(listed, names);
}

/// The metrics in all queries of a dashboard.
fn expressions(value: &serde_json::Value, asked: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (field, value) in fields {
                match value.as_str().filter(|_| matches!(field.as_str(), "expr" | "query")) {
                    Some(query) => {
                        let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                        asked.extend(words.filter(|w| w.starts_with("emq_")).map(str::to_owned));
                    }
                    None => expressions(value, asked),
                }
            }
        }
        serde_json::Value::Array(values) => {
            for value in values {
                expressions(value, asked);
            }
        }
        _ => {}
    }
}
