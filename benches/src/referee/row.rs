//! The rows of the table: what is asked of a contender, and which figure of its answer counts.

/// Where a row is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Beside the server.
    Near,
    /// A millisecond away from it: behind a proxy that delays each direction by half of that.
    Far,
    /// On a server that is killed and started again.
    Killed,
}

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name here.
    pub name: &'static str,
    /// Its name in the protocol of `benches/README.md`.
    pub asked: &'static str,
    /// Where it is played.
    pub place: Place,
    /// The field of the contender's answer that holds the figure.
    pub field: &'static str,
    /// The figure's unit.
    pub unit: &'static str,
    /// What it is, in words.
    pub words: &'static str,
}

impl Row {
    /// The row of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Row> {
        ROWS.iter().find(|row| row.name == name)
    }

    /// Whether more is better.
    #[must_use]
    pub fn more_is_better(&self) -> bool {
        self.unit == RATE
    }
}

/// The unit of all rates.
pub const RATE: &str = "jobs/s";
/// The field of all rates.
const PER_S: &str = "per_s";

const fn rate(name: &'static str, words: &'static str) -> Row {
    Row { name, asked: name, place: Place::Near, field: PER_S, unit: RATE, words }
}

/// Every row, in the table's order.
pub const ROWS: &[Row] = &[
    rate("enqueue_1by1", "enqueue, each call awaited"),
    rate("enqueue_50", "enqueue, 50 tasks on one client"),
    rate("enqueue_bulk", "enqueue, 1,000 jobs a call"),
    rate("process_c1", "worker, no-op handler, c = 1"),
    rate("process_c10", "worker, c = 10"),
    rate("process_c50", "worker, c = 50"),
    rate("process_c200", "worker, c = 200"),
    rate("process_lanes", "worker, c = 50, 100 tenants"),
    Row {
        name: "idle_pickup_p50",
        asked: "idle_pickup_ms",
        place: Place::Near,
        field: "p50",
        unit: "ms",
        words: "enqueue to start, idle worker, half of all jobs",
    },
    Row {
        name: "idle_pickup_p99",
        asked: "idle_pickup_ms",
        place: Place::Near,
        field: "p99",
        unit: "ms",
        words: "enqueue to start, idle worker, 99 of 100 jobs",
    },
    Row {
        name: "bytes_a_job",
        asked: "bytes_a_job",
        place: Place::Near,
        field: "bytes",
        unit: "bytes",
        words: "what the store grows by, a queued job",
    },
    Row {
        name: "fairness",
        asked: "fairness",
        place: Place::Near,
        field: "noisy_before_last_quiet",
        unit: "jobs",
        words: "a storming tenant's jobs before the last of ten quiet ones'",
    },
    Row {
        name: "enqueue_bulk_1ms",
        asked: "enqueue_bulk",
        place: Place::Far,
        field: PER_S,
        unit: RATE,
        words: "enqueue, 1,000 jobs a call, 1 ms away",
    },
    Row {
        name: "process_c200_1ms",
        asked: "process_c200",
        place: Place::Far,
        field: PER_S,
        unit: RATE,
        words: "worker, c = 200, 1 ms away",
    },
    Row {
        name: "recovery",
        asked: "recovery",
        place: Place::Killed,
        field: "recovery_ms",
        unit: "ms",
        words: "kill -9, restart: from accepting to the first job served",
    },
];

/// What is asked at a place for these rows: each protocol row once, in order.
#[must_use]
pub fn asked_at(place: Place, rows: &[&'static Row]) -> Vec<&'static str> {
    let mut asked = Vec::new();
    for row in rows.iter().filter(|row| row.place == place) {
        if !asked.contains(&row.asked) {
            asked.push(row.asked);
        }
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_figures_of_one_row_are_asked_once() {
        let rows: Vec<&Row> = ROWS.iter().collect();
        let near = asked_at(Place::Near, &rows);
        assert_eq!(near.iter().filter(|row| **row == "idle_pickup_ms").count(), 1);
        assert_eq!(asked_at(Place::Far, &rows), ["enqueue_bulk", "process_c200"]);
        assert_eq!(asked_at(Place::Killed, &rows), ["recovery"]);
    }

    #[test]
    fn every_name_is_one_rows() {
        for row in ROWS {
            assert_eq!(Row::named(row.name), Some(row));
        }
        assert_eq!(Row::named("process_c3"), None);
    }
}
