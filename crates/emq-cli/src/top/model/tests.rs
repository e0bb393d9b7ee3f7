//! What keys and news do to the model.

use std::time::Instant;

use emq_core::{SweptLanes, Vitals};
use emq_keys::{BrandedId, Namespace, QueueName};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Act, Focus, Link, Mode, Model, Pane, Reaction, Rows};
use crate::top::reading::{DeadLetter, Detail, LaneRow, Reading};
use crate::watching::{Numbers, Search};

fn name(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn model(names: &[&str]) -> Model {
    let mut model = Model::new(String::new(), 24);
    find(&mut model, names);
    model
}

fn find(model: &mut Model, names: &[&str]) {
    let found = names.iter().map(|one| name(one)).collect();
    model.take(Reading::Search(Search { found, whole: true }));
}

fn id(n: u64) -> BrandedId {
    BrandedId::encode(Namespace::JOB, n << 30).unwrap()
}

fn lane(n: u64) -> LaneRow {
    LaneRow { id: id(n), depth: 1, leases: 0, ceiling: None, weight: 1, paused: false }
}

fn lanes(model: &mut Model, ids: &[u64], more: bool) {
    let queue = model.queue().unwrap().clone();
    let lanes = ids.iter().map(|n| lane(*n)).collect();
    model.take(Reading::Lanes { queue, page: model.page, lanes, more });
}

fn press(model: &mut Model, key: KeyCode) -> Reaction {
    model.key(KeyEvent::new(key, KeyModifiers::NONE))
}

fn type_in(model: &mut Model, keys: &str) -> Reaction {
    keys.chars().map(|key| press(model, KeyCode::Char(key))).last().unwrap()
}

#[test]
fn a_queue_is_paused_and_resumed_by_its_name() {
    let mut model = model(&["a", "b", "c"]);
    press(&mut model, KeyCode::Down);
    assert_eq!(press(&mut model, KeyCode::Char('p')), Reaction::Do(Act::PauseQueue(name("b"))));
    assert_eq!(press(&mut model, KeyCode::Char('r')), Reaction::Do(Act::ResumeQueue(name("b"))));
}

#[test]
fn the_selection_stays_on_its_queue_when_others_come_and_go() {
    let mut model = model(&["b", "d"]);
    press(&mut model, KeyCode::Down);
    find(&mut model, &["a", "b", "c", "d"]);
    assert_eq!(model.queue(), Some(&name("d")));
    find(&mut model, &["a", "b"]);
    assert_eq!(model.queue(), Some(&name("b")));
    find(&mut model, &[]);
    assert_eq!((model.queue(), model.shown().len()), (None, 0));
    assert_eq!(press(&mut model, KeyCode::Char('p')), Reaction::Nothing);
}

#[test]
fn a_lane_is_limited_to_what_was_typed_and_0_takes_the_ceiling_away() {
    let mut model = model(&["q"]);
    lanes(&mut model, &[1, 2, 3], false);
    press(&mut model, KeyCode::Tab);
    press(&mut model, KeyCode::Down);
    type_in(&mut model, "l12x");
    press(&mut model, KeyCode::Backspace);
    let limited = Reaction::Do(Act::Limit(name("q"), id(2), Some(1)));
    assert_eq!(press(&mut model, KeyCode::Enter), limited);
    assert_eq!(model.mode, Mode::Watch);
    type_in(&mut model, "l0");
    let unlimited = Reaction::Do(Act::Limit(name("q"), id(2), None));
    assert_eq!(press(&mut model, KeyCode::Enter), unlimited);
    type_in(&mut model, "w30");
    assert_eq!(press(&mut model, KeyCode::Enter), Reaction::Do(Act::Weigh(name("q"), id(2), 30)));
    // Nothing typed, too much typed, and a change of mind.
    for keys in ["l", "l99999999999", "w"] {
        type_in(&mut model, keys);
        assert_eq!(press(&mut model, KeyCode::Enter), Reaction::Nothing, "{keys}");
        type_in(&mut model, keys);
        assert_eq!(press(&mut model, KeyCode::Esc), Reaction::Nothing, "{keys}");
        assert_eq!(model.mode, Mode::Watch);
    }
}

#[test]
fn keys_of_lanes_need_a_lane() {
    let mut model = model(&["q"]);
    lanes(&mut model, &[1], false);
    for key in ["l", "w", "u"] {
        assert_eq!(type_in(&mut model, key), Reaction::Nothing);
        assert_eq!(model.mode, Mode::Watch);
        assert!(model.notice.take().unwrap().is_bad);
    }
}

#[test]
fn the_selection_stays_on_its_lane_when_rows_move() {
    let mut model = model(&["q"]);
    lanes(&mut model, &[1, 2, 3], false);
    press(&mut model, KeyCode::Tab);
    press(&mut model, KeyCode::Down);
    lanes(&mut model, &[0, 1, 2, 3], false);
    let paused = press(&mut model, KeyCode::Char('p'));
    assert_eq!(paused, Reaction::Do(Act::PauseLane(name("q"), id(2))));
    lanes(&mut model, &[7], false);
    let resumed = press(&mut model, KeyCode::Char('r'));
    assert_eq!(resumed, Reaction::Do(Act::ResumeLane(name("q"), id(7))));
}

#[test]
fn a_page_is_turned_only_where_there_is_another() {
    let mut model = model(&["q"]);
    lanes(&mut model, &[1, 2], true);
    press(&mut model, KeyCode::Tab);
    press(&mut model, KeyCode::PageDown);
    assert_eq!(model.page, 1);
    // What it says of the next page isn't known yet.
    press(&mut model, KeyCode::PageDown);
    assert_eq!(model.page, 1);
    // A page that was read before the turn is not this one.
    let queue = name("q");
    model.take(Reading::Lanes { queue, page: 0, lanes: vec![lane(9)], more: true });
    assert!(!model.lanes.read);
    lanes(&mut model, &[3], false);
    press(&mut model, KeyCode::PageDown);
    assert_eq!(model.page, 1);
    press(&mut model, KeyCode::PageUp);
    assert_eq!(model.page, 0);
    let rows = model.rows.pane;
    assert_eq!(model.wanted().detail, Some((name("q"), Detail::Lanes { page: 0, rows })));
}

#[test]
fn dead_letters_are_requeued_one_by_one_and_all_only_after_a_yes() {
    let mut model = model(&["q"]);
    type_in(&mut model, "3");
    let letter = |n| DeadLetter { id: id(n), attempts: 1, kind: None, lane: None, error: None };
    let letters = vec![letter(1), letter(2)];
    model.take(Reading::Morgue { queue: name("q"), page: 0, letters, more: false });
    press(&mut model, KeyCode::Tab);
    press(&mut model, KeyCode::Down);
    assert_eq!(type_in(&mut model, "u"), Reaction::Do(Act::Requeue(name("q"), id(2))));
    assert_eq!(type_in(&mut model, "U"), Reaction::Nothing);
    assert_eq!(type_in(&mut model, "n"), Reaction::Nothing);
    type_in(&mut model, "U");
    assert_eq!(type_in(&mut model, "y"), Reaction::Do(Act::RequeueAll(name("q"))));
    // Neither of it outside the morgue.
    type_in(&mut model, "1");
    type_in(&mut model, "U");
    assert_eq!(model.mode, Mode::Watch);
}

#[test]
fn news_of_another_queue_or_pane_change_nothing() {
    let mut model = model(&["a", "b"]);
    let queue = name("b");
    model.take(Reading::Lanes { queue, page: 0, lanes: vec![lane(1)], more: false });
    assert!(!model.lanes.read);
    lanes(&mut model, &[1], false);
    press(&mut model, KeyCode::Down);
    // The pane of the next queue starts empty.
    assert!(!model.lanes.read && model.lanes.rows.is_empty());
}

#[test]
fn only_what_is_on_the_screen_is_read() {
    let names: Vec<String> = (0..10_000).map(|n| format!("q{n:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut model = model(&names);
    assert_eq!(model.rows, Rows { queues: 7, pane: 12 });
    for _ in 0..3 {
        press(&mut model, KeyCode::PageDown);
    }
    let wanted = model.wanted();
    assert_eq!(wanted.shown.len(), 7);
    assert!(wanted.shown.contains(&name("q00021")));
    assert_eq!(wanted.detail.unwrap().0, name("q00021"));
    model.resize(50);
    assert_eq!(model.wanted().shown.len(), 18);
    assert!(model.shown().contains(model.queue().unwrap()));
}

#[test]
fn quitting_works_everywhere() {
    let mut model = model(&["q"]);
    lanes(&mut model, &[1], false);
    assert_eq!(type_in(&mut model, "q"), Reaction::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut model, KeyCode::Tab);
    type_in(&mut model, "l");
    assert_eq!(model.key(interrupt), Reaction::Quit);
    press(&mut model, KeyCode::Esc);
    // With Alt or Ctrl a letter is another key.
    let other = KeyEvent::new(KeyCode::Char('p'), KeyModifiers::ALT);
    assert_eq!(model.key(other), Reaction::Nothing);
    // A letter that is typed into help closes it and does nothing else.
    type_in(&mut model, "?");
    assert_eq!((type_in(&mut model, "q"), &model.mode), (Reaction::Nothing, &Mode::Watch));
}

#[test]
fn a_loss_counts_from_its_first_sign() {
    let mut model = model(&["q"]);
    model.take(Reading::Answered { at: Instant::now() });
    model.lost("first".to_owned());
    let Link::Down { since, .. } = model.link.clone() else { panic!() };
    model.take(Reading::Failed { why: "second".to_owned() });
    assert_eq!(model.link, Link::Down { since, why: "second".to_owned() });
}

#[test]
fn rates_are_taken_over_ten_seconds_and_only_of_what_is_known() {
    let mut model = model(&["q"]);
    let start = Instant::now();
    for second in 0..30_u64 {
        let mut vitals = Vitals::default();
        (vitals.pending, vitals.dead) = (second * 100, second * 2);
        let at = start + std::time::Duration::from_secs(second);
        let lanes = SweptLanes::default();
        let is_summed = second != 29;
        model.take(Reading::Queue(Numbers { name: name("q"), at, vitals, lanes, is_summed }));
    }
    let view = &model.queues[&name("q")];
    assert_eq!(view.dead_a_minute().map(f64::round), Some(120.0));
    // What was read last isn't a sum.
    assert_eq!(view.waiting_a_second(), None);
    find(&mut model, &["other"]);
    assert!(model.queues.is_empty());
}

#[test]
fn panes_are_in_a_row() {
    let mut model = model(&["q"]);
    for pane in [Pane::Workers, Pane::Morgue, Pane::Morgue] {
        press(&mut model, KeyCode::Right);
        assert_eq!(model.pane, pane);
    }
    for pane in [Pane::Workers, Pane::Lanes, Pane::Lanes] {
        press(&mut model, KeyCode::Left);
        assert_eq!(model.pane, pane);
    }
    press(&mut model, KeyCode::Tab);
    press(&mut model, KeyCode::Esc);
    assert_eq!(model.focus, Focus::Queues);
}
