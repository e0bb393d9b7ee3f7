//! Prometheus' text format.

use std::fmt::{Display, Write};

use super::watcher::Snapshot;
use crate::watching::Numbers;

/// A gauge of each queue: its name, what it means, and its value, where there is one. The only
/// label is the queue's name, and so many queues are told as are read.
type Gauge = (&'static str, &'static str, fn(&Numbers) -> Option<f64>);

const GAUGES: [Gauge; 16] = [
    ("emq_queue_waiting", "Jobs that wait, in the flat set and in lanes.", |queue| {
        some(queue.vitals.pending + queue.lanes.waiting)
    }),
    ("emq_queue_waiting_flat", "Jobs that wait in the flat set.", |queue| {
        some(queue.vitals.pending)
    }),
    ("emq_queue_waiting_lanes", "Jobs that wait in lanes, by the last sweep of them.", |queue| {
        some(queue.lanes.waiting)
    }),
    (
        "emq_queue_waiting_complete",
        "Whether all lanes were looked at; with 0, what waits in lanes is a lower bound.",
        |queue| some(u64::from(queue.lanes.whole || queue.is_summed)),
    ),
    ("emq_queue_in_flight", "Jobs under a lease.", |queue| some(queue.vitals.active)),
    ("emq_queue_scheduled", "Jobs that run later, retries among them.", |queue| {
        some(queue.vitals.scheduled)
    }),
    ("emq_queue_dead", "Dead letters.", |queue| some(queue.vitals.dead)),
    ("emq_queue_paused", "Whether an operator paused the queue.", |queue| {
        some(u64::from(queue.vitals.paused))
    }),
    (
        "emq_queue_oldest_wait_seconds",
        "Since the job that waits longest was minted; 0 when none waits.",
        |queue| Some(oldest_wait(queue)),
    ),
    (
        "emq_queue_lease_overdue_seconds",
        "Since the first lease ended without anybody taking the job back; 0 when none has.",
        |queue| Some(overdue(queue, queue.vitals.lease_ends_ms)),
    ),
    (
        "emq_queue_schedule_overdue_seconds",
        "Since the first scheduled job was due without anybody moving it; 0 when none is.",
        |queue| Some(overdue(queue, queue.vitals.due_ms)),
    ),
    ("emq_queue_lanes", "Lanes with jobs, by the last sweep of them.", |queue| {
        some(queue.lanes.lanes.max(queue.vitals.lanes_ready))
    }),
    ("emq_queue_lanes_ready", "Lanes that the next turns serve.", |queue| {
        some(queue.vitals.lanes_ready)
    }),
    ("emq_queue_lanes_paused", "Lanes that an operator paused.", |queue| {
        some(queue.vitals.lanes_paused)
    }),
    ("emq_queue_lanes_leased", "Lanes with leases out.", |queue| some(queue.vitals.lanes_leased)),
    ("emq_queue_lanes_limited", "Lanes with a ceiling.", |queue| some(queue.vitals.lanes_limited)),
];

/// All that is known; without a snapshot, that the server is down.
pub(super) fn lines(snapshot: Option<&Snapshot>, link: Option<&LinkCounts>) -> String {
    let mut lines = String::new();
    let version = env!("CARGO_PKG_VERSION");
    head(&mut lines, "emq_build_info", "gauge", "The version of this program, as a label.");
    sample(&mut lines, "emq_build_info", &[("version", version)], 1);
    let up = u64::from(snapshot.is_some());
    one(&mut lines, "emq_up", "gauge", "Whether the server was read within the last second.", up);
    if let Some(link) = link {
        let help = "Commands that this program sent to the server.";
        one(&mut lines, "emq_serve_commands_total", "counter", help, link.commands);
        let help = "Connections that this program made after its first.";
        one(&mut lines, "emq_serve_reconnects_total", "counter", help, link.reconnects);
    }
    if let Some(snapshot) = snapshot {
        of_the_watch(&mut lines, snapshot);
        of_queues(&mut lines, &snapshot.queues);
    }
    lines
}

/// What this program's connection has done.
pub(super) struct LinkCounts {
    pub(super) commands: u64,
    pub(super) reconnects: u64,
}

fn of_the_watch(lines: &mut String, snapshot: &Snapshot) {
    let found = snapshot.queues.len() + snapshot.unreadable.len() + snapshot.left_out;
    one(lines, "emq_queues", "gauge", "Queues that were found.", found);
    let help = "Queues that were found and aren't told, because there are too many.";
    one(lines, "emq_queues_left_out", "gauge", help, snapshot.left_out);
    let help = "Queues that can't be read, though the server answers.";
    one(lines, "emq_queues_unreadable", "gauge", help, snapshot.unreadable.len());
    let help = "Whether the whole keyspace was looked through for queues.";
    one(lines, "emq_search_complete", "gauge", help, u64::from(snapshot.search_is_whole));
    let help = "Readings of the server so far, however many asked for them.";
    one(lines, "emq_serve_readings_total", "counter", help, snapshot.readings);
    let help = "How long the last reading of the server took.";
    one(lines, "emq_serve_reading_seconds", "gauge", help, snapshot.took.as_secs_f64());
}

fn of_queues(lines: &mut String, queues: &[Numbers]) {
    for (name, help, of) in GAUGES {
        head(lines, name, "gauge", help);
        for queue in queues {
            if let Some(value) = of(queue) {
                sample(lines, name, &[("queue", queue.name.as_str())], value);
            }
        }
    }
}

fn some(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn oldest_wait(queue: &Numbers) -> f64 {
    let oldest = [queue.vitals.oldest, queue.lanes.oldest].into_iter().flatten().min();
    oldest.map_or(0.0, |job| queue.vitals.since(job).as_secs_f64())
}

fn overdue(queue: &Numbers, at_ms: Option<u64>) -> f64 {
    at_ms.map_or(0.0, |at_ms| queue.vitals.server_ms.saturating_sub(at_ms) as f64 / 1_000.0)
}

fn one(lines: &mut String, name: &str, kind: &str, help: &str, value: impl Display) {
    head(lines, name, kind, help);
    sample(lines, name, &[], value);
}

fn head(lines: &mut String, name: &str, kind: &str, help: &str) {
    // A string takes whatever is written.
    let _ = writeln!(lines, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(lines: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    let labels: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(lines, "{name}{labels} {value}");
}

/// As the format asks for in a label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut lines = String::new();
        sample(&mut lines, "m", &[("a", "x\"y\\z\n")], 1);
        assert_eq!(lines, "m{a=\"x\\\"y\\\\z\\n\"} 1\n");
    }

    #[test]
    fn names_are_told_once_and_each_has_its_help() {
        let text = lines(None, None);
        assert!(text.contains("\nemq_up 0\n"), "{text}");
        let mut names: Vec<&str> = GAUGES.iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), GAUGES.len());
    }
}
