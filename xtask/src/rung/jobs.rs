//! Rung 3.2: jobs are entities.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use emq_core::{Bus, EnqueueOptions, Enqueued, Error, Morgue, NewJob, Queue, TypedQueue, Worker};
use emq_keys::{BrandedId, Namespace};
use emq_wire::{Cmd, Connection, Reply};
use serde::{Deserialize, Serialize};

use super::ground::{Ground, require};
use super::surface::{private_names, verbs};
use super::{Finding, Gate, gate};
use crate::Failure;

pub(super) const GATES: &[Gate] = &[
    gate!("J1 surface", surface),
    gate!("J2 idempotent", idempotent),
    gate!("J3 kind", kind),
    gate!("J4 dividend", dividend),
    gate!("J5 cargo", cargo),
];

/// The verbs of this chapter are there; scripts and the shapes of keys are not in sight.
async fn surface(_ground: &Ground) -> Finding {
    let chapter = verbs![
        Bus::connect,
        Bus::mint_job,
        |q: Queue| drop(q.enqueue("")),
        |q: Queue, o: EnqueueOptions| drop(q.enqueue_with("", &o)),
        |q: Queue, at: SystemTime| drop(q.enqueue_at("", at)),
        |q: Queue, delay: Duration| drop(q.enqueue_in("", delay)),
        Queue::enqueue_many,
        Queue::browse,
        Queue::window,
        Queue::depth,
        Queue::counts,
        Queue::get,
        Queue::morgue,
        TypedQueue::<u8>::enqueue,
        |id: BrandedId| NewJob::new(id, Bytes::new()),
        Morgue::browse,
        Worker::builder::<Queue>,
    ];
    let exported = private_names()?;
    Ok(format!(
        "{} public verbs; none of {exported} names of scripts and keys is exported",
        chapter.len()
    ))
}

/// The second enqueue of a name says so and changes nothing.
async fn idempotent(ground: &Ground) -> Finding {
    let (bus, queue) = ground.queue("rung-3-2-idempotent").await?;
    let raw = ground.connect().await?;
    let id = bus.mint_job().await?;
    let named = EnqueueOptions::new().id(id);
    let first = queue.enqueue_with("first", &named).await?;
    let row = read_row(&raw, queue.name().as_str(), &id).await?;
    let second = queue.enqueue_with("second", &named.clone().kind("other")).await?;
    let after = read_row(&raw, queue.name().as_str(), &id).await?;
    require(first == Enqueued::Admitted(id) && second == Enqueued::Duplicate(id), || {
        format!("{first:?} then {second:?}")
    })?;
    require(row == after && queue.depth().await? == 1, || format!("{row:?} became {after:?}"))?;
    ground.remove(&queue).await?;
    Ok(format!(
        "{id}: admitted, then duplicate; the row of {} fields untouched; pending holds 1",
        row.len() / 2
    ))
}

/// What is a well-formed name of another kind passes the key's gate and not the script's.
async fn kind(ground: &Ground) -> Finding {
    let (bus, queue) = ground.queue("rung-3-2-kind").await?;
    let order = bus.mint(Namespace::new("ORD")?).await?;
    let key = queue.keys().job(&order);
    let calls = bus.counters().evalsha_calls;
    let refused = queue.enqueue_with("x", &EnqueueOptions::new().id(order)).await;
    let asked = bus.counters().evalsha_calls - calls;
    match refused {
        Err(Error::Kind { id }) if id == order && asked == 1 => {}
        other => return Err(format!("{other:?} after {asked} script calls").into()),
    }
    require(ground.keys(&queue).await?.is_empty(), || "something was written".into())?;
    Ok(format!("{key} built; {order} refused EMQKIND by the script, 0 keys written"))
}

/// Names that sort by time: newest first, oldest first, and no second index.
async fn dividend(ground: &Ground) -> Finding {
    const COUNT: usize = 301;
    let (_bus, queue) = ground.queue("rung-3-2-dividend").await?;
    let mut minted = Vec::with_capacity(COUNT);
    for n in 0..COUNT {
        minted.push(queue.enqueue(n.to_string()).await?.id());
    }
    let newest: Vec<BrandedId> = minted.iter().rev().take(5).copied().collect();
    let browsed = queue.browse(5).await?;
    require(browsed == newest, || format!("{browsed:?} where {newest:?} was minted"))?;
    let head = queue.claim(Duration::from_secs(60)).await?;
    let head = head.ok_or("nothing to claim")?;
    require(head.id() == minted[0], || format!("{} is the head, not {}", head.id(), minted[0]))?;
    let keys = ground.keys(&queue).await?;
    let base = queue.keys().base();
    let facts: BTreeSet<&str> = keys
        .iter()
        .filter_map(|key| key.strip_prefix(base))
        .filter(|fact| !fact.starts_with("job:"))
        .collect();
    let expected: BTreeSet<&str> = ["active", "pending", "wake"].into();
    require(facts == expected, || format!("there are {facts:?}"))?;
    ground.remove(&queue).await?;
    Ok(format!(
        "{COUNT} enqueued; newest five in reverse mint order, oldest at the head; {} rows and {} and no other key",
        keys.len() - facts.len(),
        facts.into_iter().collect::<Vec<_>>().join(", "),
    ))
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Cargo {
    order: BrandedId,
    qty: i64,
}

/// A payload's id arrives, decodes and parses.
async fn cargo(ground: &Ground) -> Finding {
    let (bus, queue) = ground.queue("rung-3-2-cargo").await?;
    let cargo = Cargo { order: bus.mint(Namespace::new("ORD")?).await?, qty: 12 };
    let job = queue.typed::<Cargo>().enqueue(&cargo).await?.id();
    let (_far_bus, far) = ground.queue("rung-3-2-cargo").await?;
    let lease = far.claim(Duration::from_secs(60)).await?.ok_or("nothing to claim")?;
    let decoded = far.typed::<Cargo>().decode(lease.payload())?;
    let parsed = BrandedId::parse(decoded.order.as_bytes())?;
    require(lease.id() == job && decoded == cargo && parsed.namespace().as_str() == "ORD", || {
        format!("{decoded:?} where {cargo:?} was sent")
    })?;
    let payload_bytes = lease.payload().len();
    let completed = lease.complete().await?;
    ground.remove(&queue).await?;
    Ok(format!(
        "{parsed} crossed in {payload_bytes} bytes, decoded and parsed on the far side ({completed:?})"
    ))
}

/// A row as the server has it.
pub(super) async fn read_row(
    raw: &Connection,
    queue: &str,
    id: &BrandedId,
) -> Result<Vec<Bytes>, Failure> {
    let reply = raw.command(Cmd::new("HGETALL").arg(format!("emq:{{{queue}}}:job:{id}"))).await?;
    match reply {
        Reply::Array(fields) => Ok(fields.iter().filter_map(|f| f.as_bytes().cloned()).collect()),
        other => Err(format!("{other:?} for a row").into()),
    }
}
