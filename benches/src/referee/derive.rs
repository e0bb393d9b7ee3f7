//! Predictions, made before anything is measured: each a band and the arithmetic behind it.

use super::limits::{Limits, TURN_JOBS};
use super::row::Row;
use super::side::{Side, Store};
use super::size::known_rate;

/// Empty script calls a second, one after the other, on the machine and the day that the rivals'
/// known rates are of.
const EMPTY_CALLS_THEN: f64 = 14_200.0;
/// What a client adds to a job of its own: minting, payload, wake-ups of tasks. In microseconds.
const CLIENT_US: f64 = 1.0;

/// What is predicted of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// The least that is expected.
    pub from: f64,
    /// The most.
    pub to: f64,
    /// The arithmetic.
    pub why: String,
}

impl Band {
    /// Whether a figure lies in it.
    #[must_use]
    pub fn holds(&self, figure: f64) -> bool {
        (self.from..=self.to).contains(&figure)
    }
}

/// What is known before the first row.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The limits of the side's own kind of server.
    pub limits: &'a Limits,
    /// An empty round trip through the proxy, in microseconds.
    pub far_trip: f64,
    /// The quiet jobs of each tenant in the row of fairness.
    pub quiet_each: usize,
}

/// Predicts a row of one of ours.
#[must_use]
pub fn ours(row: &Row, known: &Known<'_>) -> Band {
    let limits = known.limits;
    // A job's time as a rate, with what may be lost and won around it.
    let rate = |us: f64, low: f64, high: f64, why: String| {
        let per_s = 1e6 / us.max(0.01);
        Band { from: per_s * low, to: per_s * high, why: format!("{why} = {per_s:.0}/s") }
    };
    let ms = |low: f64, high: f64, why: String| Band { from: low, to: high, why };
    match row.name {
        "enqueue_1by1" => {
            let trip = limits.enqueue_trip;
            rate(trip, 0.7, 1.1, format!("one script's round trip a job, {trip:.0} us"))
        }
        "enqueue_50" => {
            let us = limits.enqueue;
            rate(us, 0.5, 1.1, format!("the script in pipelines of fifty, {us:.1} us a job"))
        }
        "enqueue_bulk" => bulk(limits, limits.trip, &rate),
        "enqueue_bulk_1ms" => bulk(limits, known.far_trip, &rate),
        "process_c1" => {
            let trip = limits.turn_trip;
            rate(trip, 0.6, 1.6, format!("a turn's round trip a job, {trip:.0} us"))
        }
        "process_c10" => turns(limits, 0, limits.trip, &rate),
        "process_c50" => turns(limits, 1, limits.trip, &rate),
        "process_c200" => turns(limits, 2, limits.trip, &rate),
        "process_c200_1ms" => turns(limits, 2, known.far_trip, &rate),
        "process_lanes" => {
            let us = limits.turn[1] + limits.empty * 2.0;
            let why = "a flat job, and about two empty scripts' time for its lane";
            rate(us, 0.4, 1.1, format!("{why}, {us:.1} us"))
        }
        "idle_pickup_p50" => {
            let trip = limits.trip / 1e3;
            ms(
                trip,
                trip * 4.0,
                format!("enqueue, wake and claim: 1 to 4 round trips of {trip:.3} ms"),
            )
        }
        "idle_pickup_p99" => {
            let trip = limits.trip / 1e3;
            ms(
                trip,
                trip * 30.0,
                format!("the same, and a scheduler's delay: up to 30 of {trip:.3} ms"),
            )
        }
        "bytes_a_job" => {
            let bytes = limits.bytes;
            ms(
                bytes * 0.9,
                bytes * 1.2,
                format!("row and place in the set, {bytes:.0} bytes by MEMORY USAGE"),
            )
        }
        "fairness" => {
            let each = known.quiet_each as f64;
            ms(
                (each - 1.0).max(0.0),
                each + 20.0,
                format!(
                    "{each} rounds of the ring with one noisy job each, and two batches of c = 10"
                ),
            )
        }
        _ => ms(
            0.0,
            250.0,
            "a lost connection is tried again after 10, 20, 40 ms, each cut by chance".to_owned(),
        ),
    }
}

type Rate<'a> = &'a dyn Fn(f64, f64, f64, String) -> Band;

/// Calls of a thousand, one after the other: their jobs, and one round trip a call.
fn bulk(limits: &Limits, trip: f64, rate: Rate<'_>) -> Band {
    let us = limits.bulk + CLIENT_US + trip / 1_000.0;
    let why = format!(
        "{:.1} us a job in the script, {CLIENT_US} in the client, and a round trip of {trip:.0} us \
         for each thousand",
        limits.bulk
    );
    rate(us, 0.5, 1.1, why)
}

/// Two turns on their way, each of half the slots: while one is worked the other travels.
fn turns(limits: &Limits, size: usize, trip: f64, rate: Rate<'_>) -> Band {
    let jobs = TURN_JOBS[size] as f64;
    // The limit has two turns under way too; what it doesn't know is a longer way.
    let longer = (trip - limits.trip).max(0.0);
    let both = 2.0 * jobs * limits.turn[size];
    let us = both.max(longer + both / 2.0) / (2.0 * jobs);
    let why = format!("two turns of {jobs} on their way, {us:.1} us a job");
    rate(us, 0.5, 1.2, why)
}

/// Predicts a rival's row from what is known of it, where something is.
#[must_use]
pub fn rival(row: &Row, side: &Side, here: &Limits) -> Option<Band> {
    let known = f64::from(known_rate(&side.rates, row.name)?);
    let (scale, why) = match side.store {
        Store::Postgres => (1.0, "on another day".to_owned()),
        _ => {
            let scale = 1e6 / here.trip.max(0.01) / EMPTY_CALLS_THEN;
            (scale, format!("on another day, times {scale:.2} for this machine's round trips"))
        }
    };
    let per_s = known * scale;
    Some(Band { from: per_s * 0.4, to: per_s * 2.5, why: format!("{known}/s {why}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::row::ROWS;

    const LIMITS: Limits = Limits {
        trip: 70.0,
        empty: 1.3,
        enqueue_trip: 80.0,
        enqueue: 5.0,
        bulk: 4.0,
        turn_trip: 100.0,
        turn: [14.0, 10.0, 8.0],
        bytes: 480.0,
    };

    fn of(name: &str) -> Band {
        let known = Known { limits: &LIMITS, far_trip: 1_100.0, quiet_each: 10 };
        ours(Row::named(name).unwrap(), &known)
    }

    #[test]
    fn every_row_has_a_band_with_its_reason() {
        for row in ROWS {
            let band = of(row.name);
            assert!(band.from < band.to && !band.why.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn a_band_is_arithmetic_of_the_limits() {
        assert!(of("enqueue_1by1").holds(1e6 / 80.0));
        assert!(of("enqueue_50").holds(1e6 / 5.0));
        assert!(!of("enqueue_50").holds(1e6 / 80.0));
        assert!(of("bytes_a_job").holds(500.0));
    }

    #[test]
    fn a_longer_way_costs_the_round_trips_that_nothing_hides() {
        let (near, far) = (of("enqueue_bulk"), of("enqueue_bulk_1ms"));
        // 5.07 us a job and 6.1.
        assert!((0.82..0.84).contains(&(far.to / near.to)), "{near:?} {far:?}");
        let (near, far) = (of("process_c200"), of("process_c200_1ms"));
        // 800 us of work hide most of 1,030 us.
        assert!((0.85..0.9).contains(&(far.to / near.to)), "{near:?} {far:?}");
    }

    #[test]
    fn a_rival_is_predicted_only_from_what_is_known() {
        let oban = Side::named("oban").unwrap();
        let row = |name| Row::named(name).unwrap();
        assert!(rival(row("process_c1"), oban, &LIMITS).unwrap().holds(110.0));
        assert_eq!(rival(row("fairness"), oban, &LIMITS), None);
    }
}
