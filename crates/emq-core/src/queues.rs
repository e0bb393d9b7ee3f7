//! Which queues there are: the keyspace read in bounded steps, for there is no register of queues.

use std::collections::BTreeSet;

use emq_keys::{BrandedId, Key, KeyError, QueueFact, QueueKeys, QueueName};
use emq_wire::{Cmd, Pipeline, Reply};

use crate::bus::Bus;
use crate::error::Error;
use crate::queue::{Queue, count, misread, read_all, read_one};

/// How many keys the server looks at in one step.
const KEYS_A_STEP: i64 = 1_000;
/// Keys of queues, without the rows of jobs: no queue has rows alone.
const FACTS_AND_LANES: &str = "emq:{*}:[^j]*";
/// How many queues are asked for a job in one round trip.
const ASKED_AT_ONCE: usize = 200;

/// The queues of a deployment, read step by step: [`Bus::queues`] starts it. Each comes once. It is
/// no snapshot: one that appears or goes meanwhile may be in it or not.
///
/// The whole database is walked, a thousand keys a step, so that its time grows with the jobs that
/// are kept; each step holds the server for well under a millisecond.
#[derive(Debug)]
#[must_use = "nothing is read until a step is asked for"]
pub struct Queues {
    bus: Bus,
    /// The server's own; `None` at the end.
    cursor: Option<u64>,
    seen: BTreeSet<QueueName>,
}

impl Queues {
    /// The queues that the next step finds and none before found, which may be none of them;
    /// `None` when the keyspace is read.
    ///
    /// # Errors
    /// See [`Error`]. The same step can be asked for again.
    pub async fn step(&mut self) -> Result<Option<Vec<QueueName>>, Error> {
        let Some(cursor) = self.cursor else { return Ok(None) };
        let cmd = Cmd::new("SCAN").arg(cursor.to_string()).arg("MATCH").arg(FACTS_AND_LANES);
        let reply = read_one(&self.bus, cmd.arg("COUNT").int(KEYS_A_STEP)).await?;
        let Some((next, keys)) = read_scan(&reply) else { return Err(misread("SCAN", &reply)) };
        let mut fresh = Vec::new();
        for name in keys.iter().filter_map(|key| queue_of(key.as_bytes()?)) {
            if self.seen.insert(name.clone()) {
                fresh.push(name);
            }
        }
        self.cursor = (next != 0).then_some(next);
        Ok(Some(fresh))
    }

    /// All queues, by name.
    ///
    /// # Errors
    /// As [`Queues::step`].
    pub async fn collect(mut self) -> Result<Vec<QueueName>, Error> {
        while self.step().await?.is_some() {}
        Ok(self.seen.into_iter().collect())
    }
}

impl Bus {
    /// The queues that have a job or a setting, found by walking the keyspace in bounded steps.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let valkey = emq_testkit::Valkey::start()?;
    /// # let url = valkey.url();
    /// let bus = emq_core::Bus::connect(&url).await?;
    /// let id = bus.queue("orders")?.enqueue("x").await?.id();
    /// bus.queue("mail")?.pause().await?;
    /// let queues = bus.queues().collect().await?;
    /// assert_eq!(queues.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["mail", "orders"]);
    /// assert_eq!(bus.queues_with(id).await?[0].as_str(), "orders");
    /// # Ok(()) }
    /// ```
    pub fn queues(&self) -> Queues {
        Queues { bus: self.clone(), cursor: Some(0), seen: BTreeSet::new() }
    }

    /// The queues that have a job of this id, by name: none or one, unless somebody enqueued the
    /// same id twice. It walks the keyspace as [`Bus::queues`] does.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn queues_with(&self, id: BrandedId) -> Result<Vec<QueueName>, Error> {
        let names = self.queues().collect().await?;
        let mut found = Vec::new();
        for some in names.chunks(ASKED_AT_ONCE) {
            let row = |name: &QueueName| QueueKeys::new(name.clone()).job(&id);
            let asked: Pipeline =
                some.iter().map(|name| Cmd::new("EXISTS").arg(row(name))).collect();
            for (name, reply) in some.iter().zip(read_all(self, asked).await?) {
                if count(&reply).ok_or_else(|| misread("EXISTS", &reply))? == 1 {
                    found.push(name.clone());
                }
            }
        }
        Ok(found)
    }
}

impl Queue {
    /// Whether it is there: whether it has a job, or a setting that was made before any. A queue
    /// needs no creation and is gone with its last job, so `false` is no fault; it tells an operator
    /// of a mistyped name.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn exists(&self) -> Result<bool, Error> {
        let keys = self.keys();
        // Wake tokens outlive the jobs that they were pushed for.
        let facts = QueueFact::ALL.into_iter().filter(|fact| *fact != QueueFact::Wake);
        let facts = facts.map(|fact| keys.fact(fact));
        let reply = self.read(facts.fold(Cmd::new("EXISTS"), Cmd::arg)).await?;
        Ok(count(&reply).ok_or_else(|| misread("EXISTS", &reply))? > 0)
    }
}

/// The queue that a key is of. A type of key that only a newer version knows is a queue's too.
fn queue_of(key: &[u8]) -> Option<QueueName> {
    match Key::parse(key) {
        // Wake tokens outlive the jobs that they were pushed for.
        Ok(Key::Fact { fact: QueueFact::Wake, .. }) => None,
        Ok(key) => key.queue().cloned(),
        Err(KeyError::UnknownType { queue, .. }) => Some(queue),
        Err(_) => None,
    }
}

/// The cursor and the keys of a scan.
fn read_scan(reply: &Reply) -> Option<(u64, &[Reply])> {
    let [cursor, keys] = reply.as_array()? else { return None };
    let cursor = std::str::from_utf8(cursor.as_bytes()?).ok()?.parse().ok()?;
    Some((cursor, keys.as_array()?))
}
