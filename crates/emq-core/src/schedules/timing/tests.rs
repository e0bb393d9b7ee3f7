//! Ticks around the changes of the clock.

use jiff::Timestamp;

use super::*;

/// The first ticks after a moment, as UTC.
fn ticks(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let timing = Timing::cron(expression, zone).unwrap();
    let mut at = u64::try_from(after.parse::<Timestamp>().unwrap().as_millisecond()).unwrap();
    let mut ticks = Vec::new();
    for _ in 0..count {
        let next = timing.after(at).unwrap();
        assert!(next > at);
        at = next;
        let at = Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap();
        ticks.push(at.to_string());
    }
    ticks
}

// Berlin skips 02:00 to 03:00 on 29 March 2026 at 01:00 UTC, and repeats 02:00 to 03:00 on 25 October
// at 01:00 UTC. New York skips 02:00 to 03:00 on 8 March at 07:00 UTC, and repeats 01:00 to 02:00 on
// 1 November at 06:00 UTC.

#[test]
fn a_fixed_time_that_is_skipped_ticks_once_after_the_gap() {
    assert_eq!(
        ticks("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", 3),
        ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    );
    assert_eq!(
        ticks("30 2 * * *", "America/New_York", "2026-03-07T00:00:00Z", 3),
        ["2026-03-07T07:30:00Z", "2026-03-08T07:00:00Z", "2026-03-09T06:30:00Z"]
    );
}

#[test]
fn a_fixed_time_that_is_repeated_ticks_at_the_first_of_the_two() {
    assert_eq!(
        ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
        ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    );
    assert_eq!(
        ticks("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 2),
        ["2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"]
    );
    // Also from within the repeated hour, and from between the two.
    assert_eq!(
        ticks("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", 1),
        ["2026-10-26T01:30:00Z"]
    );
    assert_eq!(
        ticks("30 2 * * *", "Europe/Berlin", "2026-10-25T01:15:00Z", 1),
        ["2026-10-26T01:30:00Z"]
    );
}

#[test]
fn any_other_expression_skips_what_is_skipped() {
    assert_eq!(
        ticks("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:20:00Z", 3),
        ["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"]
    );
    // Every half hour of 02:00 to 03:00: on this day there is none.
    assert_eq!(
        ticks("*/30 2 * * *", "America/New_York", "2026-03-08T05:00:00Z", 2),
        ["2026-03-09T06:00:00Z", "2026-03-09T06:30:00Z"]
    );
}

#[test]
fn any_other_expression_repeats_what_is_repeated() {
    assert_eq!(
        ticks("*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 5),
        [
            "2026-10-25T00:00:00Z",
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:00:00Z",
            "2026-10-25T01:30:00Z",
            "2026-10-26T01:00:00Z"
        ]
    );
    assert_eq!(
        ticks("0,30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", 5),
        [
            "2026-11-01T05:00:00Z",
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:00:00Z",
            "2026-11-01T06:30:00Z",
            "2026-11-02T06:00:00Z"
        ]
    );
}

#[test]
fn an_hour_around_a_gap_or_a_repeat_is_an_hour() {
    for (zone, from) in [
        ("Europe/Berlin", "2026-03-28T23:30:00Z"),
        ("Europe/Berlin", "2026-10-24T22:30:00Z"),
        ("America/New_York", "2026-03-08T05:30:00Z"),
        ("America/New_York", "2026-11-01T03:30:00Z"),
    ] {
        let found = ticks("@hourly", zone, from, 6);
        let at = |text: &String| text.parse::<Timestamp>().unwrap().as_second();
        assert!(found.windows(2).all(|two| at(&two[1]) - at(&two[0]) == 3_600), "{zone} {found:?}");
    }
}

#[test]
fn seconds_are_the_first_of_six_fields() {
    assert_eq!(
        ticks("15 */20 10 * * MON", "UTC", "2026-11-29T00:00:00Z", 2),
        ["2026-11-30T10:00:15Z", "2026-11-30T10:20:15Z"]
    );
}

#[test]
fn a_fraction_of_a_second_makes_no_difference() {
    let timing = Timing::cron("* * * * * *", "UTC").unwrap();
    let second = 1_800_000_000_000;
    assert_eq!(timing.after(second - 1), Some(second));
    assert_eq!(timing.after(second), Some(second + 1_000));
    assert_eq!(timing.after(second + 999), Some(second + 1_000));
}

#[test]
fn intervals_tick_on_the_grid_of_unix_time() {
    let quarter = Timing::every(Duration::from_secs(900)).unwrap();
    assert_eq!(quarter.after(1_800_000_000_000), Some(1_800_000_900_000));
    assert_eq!(quarter.after(1_800_000_899_999), Some(1_800_000_900_000));
    let later = quarter.offset(Duration::from_secs(60)).unwrap();
    assert_eq!(later.after(1_800_000_000_000), Some(1_800_000_060_000));
    assert_eq!(later.after(1_800_000_060_000), Some(1_800_000_960_000));
    // Nothing before ids begin, and nothing behind their end.
    assert_eq!(later.after(0), later.after(EPOCH_MS - 1));
    assert_eq!(later.after(MAX_UNIX_MS), None);
    assert_eq!(later.after(u64::MAX), None);
}

#[test]
fn what_is_no_timing_is_refused_with_a_reason() {
    for ms in [0, 9, 366 * 86_400_000 + 1] {
        assert_eq!(Timing::every(Duration::from_millis(ms)), Err(TimingError::Interval));
    }
    assert_eq!(Timing::every(Duration::from_micros(10_500)), Err(TimingError::Interval));
    let second = Timing::every(Duration::from_secs(1)).unwrap();
    let offset = second.offset(Duration::from_secs(1));
    assert_eq!(offset, Err(TimingError::Offset));
    for (expression, zone) in
        [("", "UTC"), ("* * * *", "UTC"), ("61 * * * *", "UTC"), ("0 0 0 1 1 * 2030", "UTC")]
    {
        let refused = Timing::cron(expression, zone);
        assert!(matches!(refused, Err(TimingError::Cron { .. })), "{expression}: {refused:?}");
    }
    for zone in ["", "Mars/Base", "../etc/passwd", "europe berlin"] {
        let refused = Timing::cron("* * * * *", zone);
        assert!(matches!(refused, Err(TimingError::Zone { .. })), "{zone}: {refused:?}");
    }
    let long = vec!["1"; 500].join(",");
    let refused = Timing::cron(&format!("{long} * * * *"), "UTC");
    assert!(matches!(refused, Err(TimingError::Cron { .. })), "{refused:?}");
    let refused = Timing::cron("0 0 30 2 *", "UTC");
    assert!(matches!(refused, Err(TimingError::Never { .. })), "{refused:?}");
}

#[test]
fn the_text_of_a_timing_is_read_back() {
    for text in [
        "every 50 0",
        "every 60000 15000",
        "cron Europe/Berlin 30 2 * * *",
        "cron America/New_York 0 */5 8-18 * * MON-FRI",
        "cron UTC @daily",
    ] {
        assert_eq!(text.parse::<Timing>().unwrap().to_string(), text);
    }
    let spaced = Timing::cron("  30   2 * * * ", "UTC").unwrap();
    assert_eq!(spaced.to_string(), "cron UTC 30 2 * * *");
    for text in ["", "every", "every 50", "every x 0", "every 5 0", "sun up 3", "cron UTC"] {
        assert!(text.parse::<Timing>().is_err(), "{text}");
    }
}
