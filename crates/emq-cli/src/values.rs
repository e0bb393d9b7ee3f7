//! What stands on a command line, parsed once.

use std::time::{Duration, SystemTime};

use emq_core::{Lane, Queue};
use emq_keys::{BrandedId, Namespace};
use jiff::{Span, SpanRelativeTo, Timestamp};

use crate::exit::Failure;

/// The namespace of a lane that is named by a slug alone.
const LANE_NAMESPACE: &str = "LAN";

/// A duration: `500ms`, `30s`, `5m`, `2h`, `7d`, `1w`, or several of them together.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time with its unit, such as 500ms, 30s, 5m, 2h or 7d".to_owned();
    let span: Span = text.parse().map_err(|_| wrong())?;
    let days = SpanRelativeTo::days_are_24_hours();
    let duration = span.to_duration(days).map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

/// A moment with its zone.
pub(crate) fn time(text: &str) -> Result<SystemTime, String> {
    let time: Timestamp = text.parse().map_err(
        |_| "write a time with its zone, such as 2026-12-01T09:00:00Z or 2026-12-01T10:00:00+01:00",
    )?;
    SystemTime::try_from(time).map_err(|error| error.to_string())
}

/// The id of a job.
pub(crate) fn job(text: &str) -> Result<BrandedId, String> {
    let id: BrandedId = text.parse().map_err(|error| crate::exit::chain(&error))?;
    if id.namespace() != Namespace::JOB {
        return Err(format!(
            "it names a {} and no job: a job's id begins with JOB",
            id.namespace()
        ));
    }
    Ok(id)
}

/// The id that names a lane.
pub(crate) fn lane(text: &str) -> Result<BrandedId, String> {
    text.parse().map_err(|error| crate::exit::chain(&error))
}

/// The id of the lane that has an outside name: `acme-corp`, or `TEN:acme-corp` for one that
/// producers derive in another namespace.
pub(crate) fn slug(text: &str) -> Result<BrandedId, String> {
    let (namespace, name) = match text.split_once(':') {
        Some((kind, name)) if Namespace::new(kind).is_ok() => (kind, name),
        _ => (LANE_NAMESPACE, text),
    };
    if name.is_empty() {
        return Err("a lane's name is not empty".to_owned());
    }
    let namespace = Namespace::new(namespace).map_err(|error| crate::exit::chain(&error))?;
    BrandedId::derive(namespace, name.as_bytes()).map_err(|error| crate::exit::chain(&error))
}

/// Which lane, by its id or by its name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WhichLane {
    /// The lane, by its id
    #[arg(long, value_name = "ID", value_parser = lane)]
    lane: Option<BrandedId>,

    /// The lane, by an outside name: acme-corp, or TEN:acme-corp when producers derive its id in
    /// the namespace TEN (LAN unless said)
    #[arg(long, value_name = "NAME", value_parser = slug, conflicts_with = "lane")]
    lane_name: Option<BrandedId>,
}

impl WhichLane {
    pub(crate) fn id(&self) -> Option<BrandedId> {
        self.lane.or(self.lane_name)
    }

    /// The lane, when one was named.
    pub(crate) fn of(&self, queue: &Queue) -> Option<Lane> {
        self.id().map(|id| queue.lane(id))
    }

    /// The lane, which must have been named.
    pub(crate) fn needed(&self, queue: &Queue) -> Result<Lane, Failure> {
        self.of(queue).ok_or_else(|| Failure::usage("name the lane: --lane ID or --lane-name NAME"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use emq_keys::namespace;

    #[test]
    fn durations_need_a_unit() {
        for (text, ms) in [("500ms", 500), ("30s", 30_000), ("5m", 300_000), ("1h 30m", 5_400_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for text in ["", "5", "-5s", "1 month", "soon"] {
            assert!(duration(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn times_need_a_zone() {
        assert_eq!(time("2026-12-01T09:00:00Z"), time("2026-12-01T10:00:00+01:00"));
        assert!(time("2026-12-01T09:00:00").is_err() && time("tomorrow").is_err());
    }

    #[test]
    fn a_slug_names_the_lane_that_producers_derive() {
        let derived =
            |namespace, name: &str| BrandedId::derive(namespace, name.as_bytes()).unwrap();
        assert_eq!(slug("acme"), Ok(derived(namespace!("LAN"), "acme")));
        assert_eq!(slug("TEN:acme"), Ok(derived(namespace!("TEN"), "acme")));
        assert_eq!(slug("eu:acme"), Ok(derived(namespace!("LAN"), "eu:acme")));
        assert!(slug("").is_err() && slug("TEN:").is_err() && slug("JOB:x").is_err());
    }

    #[test]
    fn a_jobs_id_is_a_jobs() {
        assert!(job("JOB0NgWEfAEJfs").is_ok());
        assert!(job("ORD0NgWEfAEJfs").unwrap_err().contains("no job"));
        assert!(job("JOB").is_err() && job("").is_err());
    }
}
