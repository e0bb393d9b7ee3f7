//! `emq top` in a real terminal, on a real server.

mod watch;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emq_core::{Job, JobError, Worker};
use emq_testkit::Valkey;
use watch::screen::Screen;
use watch::{
    LONG, LONG_NAME, admit, bury, bus_on, calls, commands, fill_lanes, plant_waiting, tenant, until,
};

const SIZE: (u16, u16) = (80, 24);

fn top(valkey: &Valkey, args: &[&str]) -> Screen {
    let url = valkey.url();
    Screen::emq(&[&["--url", &url, "top", "--every", "0.2"], args].concat(), SIZE)
}

/// The row of a queue, in words.
fn row<'a>(screen: &'a str, queue: &str) -> Vec<&'a str> {
    let line = screen.lines().find(|line| line.starts_with(queue));
    line.map(|line| line.split_whitespace().collect()).unwrap_or_default()
}

/// Keeps a screen for a person to look at, where `EMQ_TEST_SCREENS` names a folder.
fn keep(name: &str, screen: &str) {
    if let Some(folder) = std::env::var_os("EMQ_TEST_SCREENS") {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(std::path::Path::new(&folder).join(name), screen).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_under_load_is_shown_and_its_keys_do_what_they_say() {
    let valkey = Valkey::start().unwrap();
    let bus = bus_on(&valkey).await;
    let mail = bus.queue("mail").unwrap();
    let dead = bury(&mail, "x", "the relay said no").await;
    fill_lanes(&mail, 5).await;
    let long = bus.queue(LONG_NAME).unwrap();
    admit(&long, "x").await;
    // Load: jobs are enqueued and worked for as long as the test looks.
    let orders = bus.queue("orders").unwrap().typed::<u32>();
    let worker = Worker::builder(&orders)
        .concurrency(4)
        .handler(|job: Job<u32>| async move {
            tokio::time::sleep(Duration::from_millis(u64::from(job.payload))).await;
            Ok::<_, JobError>(())
        })
        .start()
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let producer = tokio::spawn({
        let (orders, stop) = (orders.clone(), Arc::clone(&stop));
        async move {
            while !stop.load(Ordering::Relaxed) {
                let _ = orders.enqueue(&5).await.unwrap();
                if orders.queue().depth().await.unwrap() > 500 {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    });

    let mut screen = top(&valkey, &[]);
    let shown = screen.until("all three queues", |text| {
        text.contains("up  3 queues")
            && row(text, "orders").len() > 4
            && row(text, "mail").get(1) == Some(&"5")
            && text.contains("-end-of-it.")
    });
    keep("load.txt", &shown);
    assert!(shown.lines().all(|line| line.chars().count() <= 80));

    // The selected queue is the first by name: the long one, then mail, then orders.
    screen.press("jj2");
    let worker_name = worker.incarnation().to_owned();
    let shown = screen.until("the worker", |text| text.contains(&worker_name));
    keep("workers.txt", &shown);

    screen.press("k3");
    let shown = screen.until("the dead letter", |text| text.contains("the relay said no"));
    keep("morgue.txt", &shown);
    screen.press("\tu");
    screen.until("the notice", |text| text.contains(&format!("{dead} waits again")));
    assert_eq!(mail.morgue().depth().await.unwrap(), 0);

    screen.press("1");
    let lane = tenant(3).to_string();
    let shown = screen.until("the lanes", |text| text.contains(&lane));
    keep("lanes.txt", &shown);
    // The first of the lanes by name.
    let first = (0..5).map(tenant).min().unwrap();
    screen.press("p");
    screen.until("a paused lane", |text| text.contains(&format!("{first} is paused")));
    assert!(mail.lane(first).status().await.unwrap().paused);
    screen.press("l12\r");
    screen.until("a ceiling", |text| text.contains(&format!("{first} has a ceiling of 12")));
    assert_eq!(mail.lane(first).status().await.unwrap().ceiling, Some(12));
    screen.press("\tp");
    screen.until("a paused queue", |text| text.contains("mail is paused"));
    assert!(mail.vitals().await.unwrap().paused);
    screen.until("its mark", |text| row(text, "mail").contains(&"PAUSED"));
    screen.press("r");
    screen.until("a queue that goes on", |text| text.contains("mail goes on"));

    screen.resize(120, 40);
    // A key that comes together with a resize waits for the next key: the terminal library's way.
    screen.until("the new size", |text| text.contains("a-queue-may-be.the-end-of-it."));
    screen.press("?");
    screen.until("the help", |text| text.contains("any key goes back"));
    screen.press(" q");
    assert!(screen.end().success());
    stop.store(true, Ordering::Relaxed);
    producer.await.unwrap();
    worker.stop(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_million_jobs_and_ten_thousand_lanes_cost_no_more_a_round_than_a_few() {
    let valkey = Valkey::start().unwrap();
    let bus = bus_on(&valkey).await;
    plant_waiting(&valkey, "huge", 1_000_000);
    fill_lanes(&bus.queue("wide").unwrap(), 10_000).await;
    let mut screen = top(&valkey, &["huge", "wide"]);
    let shown = screen.until("both", |text| {
        row(text, "huge").get(1) == Some(&"1.0M") && row(text, "wide").len() > 4
    });
    keep("huge.txt", &shown);
    screen.press("j\t");
    let shown = screen.until("lanes", |text| text.contains("TEN") && text.contains("page 1"));
    keep("wide.txt", &shown);
    screen.press("\x1b[6~");
    let second = screen.until("the next page", |text| {
        text.contains("page 2") && text.lines().nth(11).is_some_and(|row| row.contains("TEN"))
    });
    assert_ne!(second.lines().nth(11), shown.lines().nth(11));

    // A round reads the clock once for each queue; what this test asks is INFO.
    let price = || (commands(&valkey) - calls(&valkey, "info"), calls(&valkey, "time"));
    let whole = ["keys", "smembers", "hgetall", "hkeys", "lpos"];
    let listings = || whole.map(|command| calls(&valkey, command));
    let (before, listed) = (price(), listings());
    until("ten rounds", async || price().1 >= before.1 + 20).await;
    let after = price();
    let a_round = (after.0 - before.0) * 2 / (after.1 - before.1);
    // Thirteen numbers a queue, fifty lanes by two reads, a page of lanes by one read each and
    // four, and names of lanes.
    assert!(a_round <= 2 * 13 + 2 * 50 + 12 + 4 + 4, "{a_round} commands a round");
    assert_eq!(listings(), listed, "whole keys were read");
    screen.press("q");
    assert!(screen.end().success());
}

#[tokio::test]
async fn a_lost_server_is_told_and_found_again() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "x").await;
    let mut screen = top(&valkey, &[]);
    screen.until("the queue", |text| row(text, "mail").get(1) == Some(&"1"));
    valkey.kill9().unwrap();
    let shown = screen.until("the loss", |text| text.contains("reconnecting, down for"));
    keep("lost.txt", &shown);
    // The last numbers stand, and keys work.
    assert_eq!(row(&shown, "mail").get(1), Some(&"1"));
    screen.press("?");
    screen.until("the help", |text| text.contains("any key goes back"));
    screen.press(" ");
    valkey.start_again().unwrap();
    screen.until("the return", |text| text.contains(" up  "));
    valkey.kill9().unwrap();
    screen.until("the second loss", |text| text.contains("reconnecting"));
    screen.press("q");
    assert!(screen.end().success());
}

#[tokio::test]
async fn a_queue_that_cant_be_read_is_named_and_the_others_are_shown() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "x").await;
    valkey.cli(&["SET", "emq:{torn}:pending", "no sorted set"]).unwrap();
    let mut screen = top(&valkey, &[]);
    screen.until("both", |text| {
        let told = text.contains("torn: WRONGTYPE") && text.contains(" up  2 queues");
        told && row(text, "mail").get(1) == Some(&"1")
    });
    screen.press("q");
    assert!(screen.end().success());
}

#[tokio::test]
async fn a_signal_ends_it_as_a_key_does() {
    let valkey = Valkey::start().unwrap();
    for signal in ["TERM", "INT", "HUP"] {
        let mut screen = top(&valkey, &[]);
        screen.until("an empty bus", |text| text.contains("no queue has a job"));
        let kill = Command::new("kill").args(["-s", signal, &screen.pid()]).status().unwrap();
        assert!(kill.success());
        assert!(screen.end().success(), "{signal}");
    }
}

#[tokio::test]
async fn a_server_of_another_version_ends_it_with_one_line() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    admit(&mail, "x").await;
    let mut screen = top(&valkey, &[]);
    screen.until("the queue", |text| text.contains("mail"));
    // Another version took the keyspace while nobody looked.
    valkey.cli(&["SET", "{emq}:version", "echomq:9.9.9"]).unwrap();
    valkey.cli(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let status = screen.end();
    assert!(!status.success());
    let said = screen.text();
    assert!(said.contains("emq: ") && said.contains("9.9.9"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[tokio::test]
async fn without_a_terminal_it_says_so_and_does_nothing() {
    let valkey = Valkey::start().unwrap();
    let emq = Command::new(env!("CARGO_BIN_EXE_emq"))
        .args(["--url", &valkey.url(), "top"])
        .output()
        .unwrap();
    assert_eq!(emq.status.code(), Some(2));
    let said = String::from_utf8(emq.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("terminal") && emq.stdout.is_empty(), "{said}");
}

#[tokio::test]
async fn the_morgue_is_paged_in_the_terminal() {
    let valkey = Valkey::start().unwrap();
    let mail = bus_on(&valkey).await.queue("mail").unwrap();
    for n in 0..20 {
        bury(&mail, "x", &format!("number-{n:02}")).await;
    }
    let _held = {
        admit(&mail, "held").await;
        mail.claim(LONG).await.unwrap().unwrap()
    };
    let mut screen = top(&valkey, &["mail"]);
    screen.press("3\t");
    screen.until("the newest", |text| text.contains("number-19") && text.contains("number-09"));
    screen.press("\x1b[6~");
    screen.until("the oldest", |text| text.contains("number-00") && text.contains("page 2"));
    screen.press("\x1b[5~");
    screen.until("the newest again", |text| text.contains("number-19"));
    screen.press("U");
    screen.until("the question", |text| text.contains("requeue all dead letters? y/n"));
    screen.press("y");
    screen.until("the answer", |text| text.contains("20 dead letters of mail wait again"));
    assert_eq!(mail.morgue().depth().await.unwrap(), 0);
    screen.press("\x03");
    assert!(screen.end().success());
}
