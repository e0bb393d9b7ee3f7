//! `emq serve`: real requests, on real servers.

mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use emq_core::{EnqueueOptions, Failure};
use emq_testkit::Valkey;
use watch::http::{Answer, Server};
use watch::{
    HOSTILE, LONG, LONG_NAME, PATIENCE, admit, bury, bus_on, calls, commands, fill_lanes,
    plant_waiting, tenant, until,
};

/// One that has found its bus.
async fn serve(valkey: &Valkey, args: &[&str]) -> Server {
    let server = start(valkey, args);
    until("the bus is found", async || server.get("/readyz").status == 200).await;
    server
}

fn start(valkey: &Valkey, args: &[&str]) -> Server {
    Server::start(&[&["--url", &valkey.url()], args].concat())
}

async fn scrape_until(server: &Server, what: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
    let mut last = None;
    until(what, async || {
        let answer = server.get("/metrics");
        let found = holds(&answer);
        last = Some(answer);
        found
    })
    .await;
    last.unwrap()
}

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

    let server = serve(&valkey, &[]).await;
    let told = scrape_until(&server, "both queues", |told| told.sample("emq_queues") == Some(2.0));
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
    scrape_until(&server, "the change", found).await;
}

#[tokio::test]
async fn what_nobody_takes_back_is_overdue() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "held").await;
    let _held = mail.claim(Duration::from_millis(1)).await.unwrap().unwrap();
    let _ = mail.enqueue_in("later", Duration::from_millis(1)).await.unwrap();
    let server = serve(&valkey, &["mail"]).await;
    let overdue = |told: &Answer, what: &str| {
        told.sample(&format!("emq_queue_{what}_overdue_seconds{{queue=\"mail\"}}")) > Some(0.0)
    };
    scrape_until(&server, "both overdue", |told| {
        overdue(told, "lease") && overdue(told, "schedule")
    })
    .await;
}

#[tokio::test]
async fn many_scrapers_cost_one_reading_a_second() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    fill_lanes(&mail, 10_000).await;
    let server = serve(&valkey, &["mail"]).await;
    scrape_until(&server, "the queue", |told| told.body.contains("mail")).await;
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
    // A reading asks for the clock twice; five hundred lanes by two reads are the most that it takes.
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
    let server = serve(&valkey, &["--queues-max", "10"]).await;
    let told = scrape_until(&server, "all", |told| told.sample("emq_queues") == Some(30.0)).await;
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
    let server = serve(&valkey, &[]).await;
    let told = scrape_until(&server, "both", |told| told.sample("emq_queues") == Some(2.0)).await;
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
    let server = start(&valkey, &[]);
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
    scrape_until(&server, "up", |told| told.sample("emq_up") == Some(1.0)).await;
    valkey.kill9().unwrap();
    until("the loss", async || server.get("/readyz").status == 503).await;
    scrape_until(&server, "down", |told| told.sample("emq_up") == Some(0.0)).await;
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
    let mut server = start(&valkey, &[]);
    assert!(!server.wait().success());
    let said = server.said();
    let last = said.last().unwrap();
    assert!(last.starts_with("emq: ") && last.contains("9.9.9"), "{said:?}");
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

/// The paths of a console with something hostile in every place that takes it.
async fn hostile_bus(valkey: &Valkey) -> Vec<String> {
    let bus = bus_on(valkey).await;
    let mail = bus.queue("mail").unwrap();
    let options = EnqueueOptions::new().kind(HOSTILE).headers(HOSTILE).unique(HOSTILE);
    let id = mail.enqueue_with(HOSTILE, &options).await.unwrap().id();
    let lease = mail.claim(LONG).await.unwrap().unwrap();
    lease.save(HOSTILE.as_bytes(), None).await.unwrap();
    lease.retry(&Failure::new(HOSTILE).dead()).await.unwrap();
    let held = admit(&mail, "held").await;
    // A client of another make takes whatever ticket it likes.
    let lease = mail.claim(LONG).await.unwrap().unwrap();
    assert_eq!(lease.id(), held);
    valkey.cli(&["HSET", &format!("emq:{{mail}}:job:{held}"), "holder", HOSTILE]).unwrap();
    valkey.cli(&["HSET", &format!("emq:{{mail}}:job:{held}"), "kind", HOSTILE]).unwrap();
    let torn = admit(&mail, [0xff, 0x00, 0x1b, b'<']).await;
    [
        "/".to_owned(),
        "/queues/mail".to_owned(),
        "/queues/mail/lanes".to_owned(),
        "/queues/mail/morgue".to_owned(),
        format!("/queues/mail/jobs/{id}"),
        format!("/queues/mail/jobs/{held}"),
        format!("/queues/mail/jobs/{torn}"),
        "/queues/<script>alert(1)</script>".to_owned(),
        "/queues/mail/jobs/<script>alert(1)</script>".to_owned(),
        "/queues/mail/job?id=<script>alert(1)</script>".to_owned(),
        "/queues/mail/lanes?lane=<script>alert(1)</script>".to_owned(),
        "/queues/mail/morgue?before=<script>".to_owned(),
        "/queues/%3Cscript%3Ealert(1)".to_owned(),
        "/queues/mail/jobs/%3Cscript%3Ealert(1)".to_owned(),
        "/queues/mail/lanes?lane=%3Cscript%3E".to_owned(),
        "/queues/mail/nothing%22%3E%3Cscript%3E".to_owned(),
    ]
    .into()
}

#[tokio::test]
async fn nothing_hostile_comes_out_of_a_page_as_it_went_in() {
    let valkey = Valkey::start().unwrap();
    let paths = hostile_bus(&valkey).await;
    let server = serve(&valkey, &["mail"]).await;
    let mut seen = 0;
    for path in &paths {
        let page = server.get(path);
        if path.contains("<script>") && page.body.is_empty() {
            // No URL has such letters: it was refused before anything looked at it.
            assert_eq!(page.status, 400, "{path}");
            continue;
        }
        let markup = page.body.to_lowercase();
        for bad in ["<script", "<img", "onerror=document.title='owned'>", "\u{1b}", "\"'>"] {
            assert!(!markup.contains(bad), "{path} has {bad:?}: {}", page.body);
        }
        seen += page.body.matches("&lt;script&gt;").count();
        assert!(matches!(page.status, 200 | 400 | 404), "{path}: {}", page.status);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        // Nothing of another host.
        assert!(!page.body.contains("http://") && !page.body.contains("https://"), "{path}");
    }
    // The error, kind, headers, payload, checkpoint, unique key and holder were all shown.
    assert!(seen >= 8, "{seen}");
    assert!(server.get(&paths[6]).body.contains("ff 00 1b 3c"));
}

#[tokio::test]
async fn payloads_can_be_left_out() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    let options = EnqueueOptions::new().headers("{\"secret\":2}");
    let id = mail.enqueue_with("secret-1", &options).await.unwrap().id();
    let shown = serve(&valkey, &["mail"]).await.get(&format!("/queues/mail/jobs/{id}"));
    assert!(shown.body.contains("secret-1") && shown.body.contains("secret&quot;:2"));
    let server = serve(&valkey, &["mail", "--hide-payloads"]).await;
    let hidden = server.get(&format!("/queues/mail/jobs/{id}"));
    assert_eq!(hidden.status, 200);
    assert!(!hidden.body.contains("secret"), "{}", hidden.body);
}

#[tokio::test]
async fn only_reading_and_only_by_a_name_of_this_machine() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "x").await;
    let server = serve(&valkey, &["mail"]).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let refused =
            server.ask(method, "/queues/mail", "Host: localhost\r\nContent-Length: 0\r\n");
        assert_eq!(refused.status, 405, "{method}");
        assert_eq!(refused.header("allow"), Some("GET, HEAD"));
    }
    let head = server.ask("HEAD", "/", "Host: localhost\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    // A page of another site that lets its name point here.
    for host in ["evil.example", "evil.example:7479", "127.0.0.1.evil.example"] {
        let refused = server.ask("GET", "/", &format!("Host: {host}\r\n"));
        assert_eq!(refused.status, 421, "{host}");
    }
    assert_eq!(server.raw(b"GET /healthz HTTP/1.0\r\n\r\n").status, 200);
    // The form leads to the job's page, and to nowhere else.
    let id = mail.browse(1).await.unwrap()[0];
    let found = server.get(&format!("/queues/mail/job?id={id}"));
    assert_eq!(found.status, 303);
    assert_eq!(found.header("location"), Some(&*format!("/queues/mail/jobs/{id}")));
    assert_eq!(server.get("/queues/mail/job?id=//evil.example").status, 400);
    assert_eq!(server.get("/queues/mail/job?id=%0d%0aLocation:%20x").status, 400);
    assert_eq!(server.get("/queues/other").status, 404);
    // What is no HTTP, and a head without an end, cost nobody else anything.
    assert_eq!(server.raw(b"nonsense\r\n\r\n").status, 400);
    let endless = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 40_000]].concat();
    assert_eq!(server.raw(&endless).status, 431);
    assert_eq!(server.get("/healthz").status, 200);
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
        let mut server = serve(&valkey, &[]).await;
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

#[tokio::test]
async fn ten_thousand_lanes_are_paged_each_once() {
    let valkey = Valkey::start().unwrap();
    let wide = bus_on(&valkey).await.queue("wide").unwrap();
    fill_lanes(&wide, 10_000).await;
    let server = serve(&valkey, &["wide"]).await;
    let mut seen = BTreeSet::new();
    for page in 1..=100 {
        let page = server.get(&format!("/queues/wide/lanes?page={page}"));
        let lanes = page.body.split("<td class=\"id\">").skip(1);
        let lanes: Vec<String> = lanes.map(|rest| rest[..14].to_owned()).collect();
        assert_eq!(lanes.len(), 100);
        seen.extend(lanes);
    }
    assert_eq!(seen.len(), 10_000);
    let last = server.get("/queues/wide/lanes?page=100").body;
    assert!(last.contains("10,000 lanes, page 100 of 100") && !last.contains("rel=\"next\""));
    // A page past the last is the last, and one lane can be looked at by its id.
    let past = server.get("/queues/wide/lanes?page=7000").body;
    assert!(past.contains("page 100 of 100"));
    let one = server.get(&format!("/queues/wide/lanes?lane={}", tenant(77))).body;
    assert!(one.contains(&tenant(77).to_string()) && one.contains("ready"));
}

#[tokio::test]
async fn the_morgue_is_paged_to_its_end() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    for n in 0..120 {
        bury(&mail, "x", &format!("error-{n:03}-")).await;
    }
    let server = serve(&valkey, &["mail"]).await;
    let (mut path, mut seen) = ("/queues/mail/morgue".to_owned(), BTreeSet::new());
    for _ in 0..3 {
        let page = server.get(&path);
        seen.extend((0..120).filter(|n| page.body.contains(&format!("error-{n:03}-"))));
        let next = page.body.split("rel=\"next\" href=\"").nth(1);
        path = next.map(|rest| rest.split('"').next().unwrap().to_owned()).unwrap_or_default();
    }
    assert_eq!((seen.len(), path.as_str()), (120, ""));
}

#[tokio::test]
async fn a_million_jobs_are_told_exactly() {
    let valkey = Valkey::start().unwrap();
    plant_waiting(&valkey, "huge", 1_000_000);
    let server = serve(&valkey, &["huge"]).await;
    let told = scrape_until(&server, "the queue", |told| told.body.contains("huge")).await;
    assert_eq!(told.sample("emq_queue_waiting{queue=\"huge\"}"), Some(1_000_000.0));
    assert!(server.get("/").body.contains("1,000,000"));
    assert!(server.get("/queues/huge").body.contains("1,000,000 in the flat set"));
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
    let server = serve(&valkey, &["mail"]).await;
    let told = scrape_until(&server, "the queue", |told| told.body.contains("mail")).await;
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
