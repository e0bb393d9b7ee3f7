//! The console of `emq serve`: what its pages show, and what they never do.

mod watch;

use std::collections::BTreeSet;

use emq_core::{EnqueueOptions, Failure};
use emq_testkit::Valkey;
use watch::http::Server;
use watch::{HOSTILE, LONG, admit, bury, bus_on, fill_lanes, plant_waiting, tenant};

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
    let server = Server::on(&valkey, &["mail"]).await;
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
    let shown = Server::on(&valkey, &["mail"]).await.get(&format!("/queues/mail/jobs/{id}"));
    assert!(shown.body.contains("secret-1") && shown.body.contains("secret&quot;:2"));
    let server = Server::on(&valkey, &["mail", "--hide-payloads"]).await;
    let hidden = server.get(&format!("/queues/mail/jobs/{id}"));
    assert_eq!(hidden.status, 200);
    assert!(!hidden.body.contains("secret"), "{}", hidden.body);
}

#[tokio::test]
async fn only_reading_and_only_by_a_name_of_this_machine() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "x").await;
    let server = Server::on(&valkey, &["mail"]).await;
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
async fn ten_thousand_lanes_are_paged_each_once() {
    let valkey = Valkey::start().unwrap();
    let wide = bus_on(&valkey).await.queue("wide").unwrap();
    fill_lanes(&wide, 10_000).await;
    let server = Server::on(&valkey, &["wide"]).await;
    let (mut seen, mut in_order) = (BTreeSet::new(), Vec::new());
    for page in 1..=100 {
        let page = server.get(&format!("/queues/wide/lanes?page={page}"));
        let lanes = page.body.split("<td class=\"id\">").skip(1);
        let lanes: Vec<String> = lanes.map(|rest| rest[..14].to_owned()).collect();
        assert_eq!(lanes.len(), 100);
        in_order.extend(lanes.iter().cloned());
        seen.extend(lanes);
    }
    assert_eq!(seen.len(), 10_000);
    // In an order that doesn't turn with the ring.
    assert!(in_order.is_sorted());
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
    let server = Server::on(&valkey, &["mail"]).await;
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
    let server = Server::on(&valkey, &["huge"]).await;
    let told = server.scrape_until("the queue", |told| told.body.contains("huge")).await;
    assert_eq!(told.sample("emq_queue_waiting{queue=\"huge\"}"), Some(1_000_000.0));
    assert!(server.get("/").body.contains("1,000,000"));
    assert!(server.get("/queues/huge").body.contains("1,000,000 in the flat set"));
}
