//! Does to the bus what a key asked for, and says in a line what came of it.

use emq_core::{Bus, Error, Lane, Requeued, Switched};
use emq_keys::{BrandedId, QueueName};

use super::model::Act;
use crate::exit::chain;
use crate::watching::text::cut_name;

/// How much of a queue's name a line has room for.
const NAME: usize = 40;

/// The line, and whether it is bad news.
pub(super) async fn carry_out(bus: Bus, act: Act) -> (String, bool) {
    match done(&bus, act).await {
        Ok(line) => (line, false),
        Err(error) => (chain(&error), true),
    }
}

async fn done(bus: &Bus, act: Act) -> Result<String, Error> {
    let lane = |queue: &QueueName, lane: BrandedId| -> Result<Lane, Error> {
        Ok(bus.queue(queue)?.lane(lane))
    };
    Ok(match act {
        Act::PauseQueue(name) => {
            let switched = bus.queue(&name)?.pause().await?;
            format!("{} {}", short(&name), told(switched, "is paused", "was paused already"))
        }
        Act::ResumeQueue(name) => {
            let switched = bus.queue(&name)?.resume().await?;
            format!("{} {}", short(&name), told(switched, "goes on", "wasn't paused"))
        }
        Act::PauseLane(name, id) => {
            let switched = lane(&name, id)?.pause().await?;
            format!("{id} {}", told(switched, "is paused", "was paused already"))
        }
        Act::ResumeLane(name, id) => {
            let switched = lane(&name, id)?.resume().await?;
            format!("{id} {}", told(switched, "goes on", "wasn't paused"))
        }
        Act::Limit(name, id, Some(ceiling)) => {
            lane(&name, id)?.limit(ceiling).await?;
            format!("{id} has a ceiling of {ceiling}")
        }
        Act::Limit(name, id, None) => {
            lane(&name, id)?.unlimited().await?;
            format!("{id} has no ceiling")
        }
        Act::Weigh(name, id, weight) => {
            lane(&name, id)?.weight(weight).await?;
            format!("{id} has a weight of {weight}")
        }
        Act::Requeue(name, id) => match bus.queue(&name)?.morgue().requeue(id).await? {
            Requeued::NoRow => format!("{id} is gone"),
            _ => format!("{id} waits again"),
        },
        Act::RequeueAll(name) => {
            let all = bus.queue(&name)?.morgue().requeue_all().await?;
            format!("{} dead letters of {} wait again", all.requeued, short(&name))
        }
    })
}

fn short(name: &QueueName) -> String {
    cut_name(name.as_str(), NAME)
}

fn told(switched: Switched, changed: &'static str, was_so: &'static str) -> &'static str {
    match switched {
        Switched::Changed => changed,
        _ => was_so,
    }
}
