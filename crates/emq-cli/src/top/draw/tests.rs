//! The screens, as a terminal of 80x24 shows them.

use std::time::{Duration, Instant};

use emq_core::{SweptLanes, Vitals};
use emq_keys::{BrandedId, Namespace, QueueName, namespace};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Look, draw};
use crate::top::model::Model;
use crate::top::reading::{DeadLetter, Held, LaneRow, Reading};
use crate::watching::{Numbers, Search};

/// A moment of the server's clock.
const NOW_MS: u64 = 1_764_489_600_000;

fn model(names: &[&str]) -> Model {
    let mut model = Model::new("valkey://127.0.0.1:6379".to_owned(), 24);
    let found = names.iter().map(|name| QueueName::new(name).unwrap()).collect();
    model.take(Reading::Search(Search { found, whole: true }));
    model.take(Reading::Answered { at: Instant::now() });
    model
}

fn screen(model: &Model, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let look = Look { colours: true };
    terminal.draw(|frame| draw(frame, model, Instant::now(), look)).unwrap();
    terminal
}

fn shot(model: &Model) -> String {
    screen(model, 80, 24).backend().to_string()
}

fn press(model: &mut Model, keys: &[KeyCode]) {
    for key in keys {
        model.key(KeyEvent::new(*key, KeyModifiers::NONE));
    }
}

/// A job minted so many seconds ago.
fn job(seconds_ago: u64) -> BrandedId {
    BrandedId::min_for(Namespace::JOB, NOW_MS - seconds_ago * 1_000).unwrap()
}

fn tenant(n: u64) -> BrandedId {
    BrandedId::encode(namespace!("TEN"), n << 40).unwrap()
}

fn numbers(pending: u64, active: u64, dead: u64) -> Vitals {
    let mut vitals = Vitals::default();
    vitals.server_ms = NOW_MS;
    (vitals.pending, vitals.active, vitals.dead) = (pending, active, dead);
    vitals.oldest = (pending > 0).then(|| job(3_725));
    vitals
}

fn swept(lanes: u64, waiting: u64, whole: bool) -> SweptLanes {
    let mut swept = SweptLanes::default();
    (swept.lanes, swept.waiting, swept.whole) = (lanes, waiting, whole);
    swept
}

fn tell(model: &mut Model, name: &str, vitals: Vitals, lanes: SweptLanes) {
    let name = QueueName::new(name).unwrap();
    let at = Instant::now();
    model.take(Reading::Queue(Numbers { name, at, vitals, lanes, is_summed: true }));
}

fn lanes(model: &mut Model, queue: &str, lanes: Vec<LaneRow>, more: bool) {
    let queue = QueueName::new(queue).unwrap();
    let page = model.page;
    model.take(Reading::Lanes { queue, page, lanes, more });
}

fn lane(n: u64) -> LaneRow {
    LaneRow { id: tenant(n), depth: n, leases: 0, ceiling: None, weight: 1, paused: false }
}

#[test]
fn no_queue_at_all() {
    insta::assert_snapshot!(shot(&model(&[])));
}

#[test]
fn zero_jobs() {
    let mut model = model(&["mail"]);
    tell(&mut model, "mail", numbers(0, 0, 0), swept(0, 0, true));
    lanes(&mut model, "mail", Vec::new(), false);
    insta::assert_snapshot!(shot(&model));
}

#[test]
fn long_names() {
    let long = "a-queue-with-a-name-as-long-as-they-come.".repeat(4);
    let long = &long[..128];
    let twin = format!("{}x", &long[..127]);
    let mut model = model(&[long, &twin, "short"]);
    tell(&mut model, long, numbers(12, 3, 4), swept(0, 0, true));
    insta::assert_snapshot!(shot(&model));
}

#[test]
fn a_million_jobs_and_more_queues_than_rows() {
    let names: Vec<String> = (0..40).map(|n| format!("queue-{n:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut model = model(&names);
    for (n, name) in names.iter().enumerate() {
        let mut vitals = numbers(1_000_000 * 10_u64.pow(n as u32 % 7), 123_456, 99_999);
        vitals.scheduled = 1_234_567;
        tell(&mut model, name, vitals, swept(0, 0, true));
    }
    press(&mut model, &[KeyCode::PageDown, KeyCode::Down]);
    insta::assert_snapshot!(shot(&model));
}

#[test]
fn ten_thousand_lanes() {
    let mut model = model(&["renders"]);
    let mut vitals = numbers(5, 40, 0);
    (vitals.lanes_ready, vitals.lanes_leased, vitals.lanes_paused) = (9_990, 40, 3);
    tell(&mut model, "renders", vitals, swept(150, 300, false));
    let mut page: Vec<LaneRow> = (1..=model.rows.pane as u64).map(lane).collect();
    page[0].paused = true;
    (page[1].ceiling, page[1].leases) = (Some(2), 2);
    (page[2].depth, page[2].leases) = (0, 1);
    page[3].depth = 0;
    (page[4].depth, page[4].weight, page[4].ceiling) = (1_000_000, 7, Some(4_000_000_000));
    lanes(&mut model, "renders", page, true);
    press(&mut model, &[KeyCode::Tab, KeyCode::Down, KeyCode::Char('l'), KeyCode::Char('5')]);
    insta::assert_snapshot!(shot(&model));
}

#[test]
fn workers_by_what_they_hold() {
    let mut model = model(&["mail"]);
    tell(&mut model, "mail", numbers(0, 9, 0), swept(0, 0, true));
    press(&mut model, &[KeyCode::Char('2')]);
    let held = |n: u64, ticket: Option<String>| Held {
        id: job(n),
        left: Duration::from_secs(20 + n),
        ticket,
        lane: Some(tenant(n % 2)),
    };
    let first = Instant::now();
    for second in 0..3 {
        let ticket = |who: &str, n: u64| Some(format!("{who}.{}", n + second * 5));
        let mut leases: Vec<Held> =
            (0..5).map(|n| held(n, ticket("0123456789abcdef0123456789abcdef", n))).collect();
        leases.push(held(7, ticket("fedcba9876543210fedcba9876543210", 1)));
        leases.push(held(8, None));
        leases.push(held(9, Some("\u{1b}[2J hostile ticket".repeat(20))));
        let queue = QueueName::new("mail").unwrap();
        let at = first + Duration::from_secs(second);
        model.take(Reading::Leases { queue, at, leases });
    }
    insta::assert_snapshot!(shot(&model));
}

#[test]
fn a_morgue_of_hostile_errors() {
    let mut model = model(&["mail"]);
    tell(&mut model, "mail", numbers(0, 0, 3), swept(0, 0, true));
    press(&mut model, &[KeyCode::Char('3'), KeyCode::Tab]);
    let letter = |n: u64, error: &str| DeadLetter {
        id: job(n),
        attempts: n,
        kind: Some("a-kind-with-a-long-name".to_owned()),
        lane: (n == 2).then(|| tenant(2)),
        error: Some(error.to_owned()),
    };
    let letters = vec![
        letter(1, "\u{1b}]0;owned\u{7}\u{1b}[31mred\u{202e}desrever"),
        letter(2, "two\nlines, the second of which is longer than the screen is wide by far"),
        letter(300_000, "表は二倍の幅があるので切られる表は二倍の幅があるので切られる"),
    ];
    let queue = QueueName::new("mail").unwrap();
    model.take(Reading::Morgue { queue, page: 0, letters, more: false });
    let shot = shot(&model);
    assert!(!shot.contains('\u{1b}') && !shot.contains('\u{202e}'));
    insta::assert_snapshot!(shot);
}

#[test]
fn help_fits() {
    let mut model = model(&["mail"]);
    press(&mut model, &[KeyCode::Char('?')]);
    insta::assert_snapshot!(shot(&model));
}

#[test]
fn a_lost_server_is_told_at_the_top_with_the_last_numbers_left() {
    let mut model = model(&["mail"]);
    tell(&mut model, "mail", numbers(7, 1, 0), swept(0, 0, true));
    model.take(Reading::Failed { why: "the server is out of reach".to_owned() });
    let shot = shot(&model);
    assert!(shot.contains("reconnecting, down for 0s"), "{shot}");
    assert!(shot.contains("the server is out of reach"), "{shot}");
    model.take(Reading::Answered { at: Instant::now() });
    assert!(!self::shot(&model).contains("reconnecting"));
}

#[test]
fn every_size_is_drawn() {
    let mut model = model(&["mail", "orders"]);
    tell(&mut model, "mail", numbers(1_000_000, 5, 5), swept(10_000, 9, true));
    for (width, height) in [(1, 1), (47, 24), (48, 9), (80, 10), (200, 60), (500, 200), (80, 3)] {
        model.resize(height);
        for keys in [KeyCode::Char('1'), KeyCode::Char('2'), KeyCode::Char('3'), KeyCode::Char('?')]
        {
            press(&mut model, &[keys]);
            screen(&model, width, height);
        }
        press(&mut model, &[KeyCode::Esc]);
    }
    let shot = screen(&model, 40, 8).backend().to_string();
    assert!(shot.contains("emq top needs 48x9"), "{shot}");
}
