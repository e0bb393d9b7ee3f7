//! Rung 3.1: the fence and the keyspace.

use emq_keys::{BrandedId, Key, Minter, Namespace, NodeId, QueueKeys, QueueName, crc16, slot};
use emq_scripts::WIRE_VERSION;
use emq_wire::{Cmd, Pipeline};

use super::ground::{Ground, require};
use super::{Finding, Gate, gate};

pub(super) const GATES: &[Gate] = &[
    gate!("F1 map", map),
    gate!("F2 gate", gate_of_ids),
    gate!("F3 fence", fence),
    gate!("F4 binary", binary),
    gate!("F5 slots", slots),
];

/// Every shape of key, byte for byte, and back.
async fn map(_ground: &Ground) -> Finding {
    let keys = QueueKeys::new(QueueName::new("orders")?);
    let id = BrandedId::parse(b"JOB0NgWEfAEJfs")?;
    let group = BrandedId::parse(b"PRT0KHTOWnGLuC")?;
    let (job, lane) = (keys.job(&id), keys.lane(&group));
    let map = [
        (keys.pending(), "emq:{orders}:pending"),
        (keys.active(), "emq:{orders}:active"),
        (keys.schedule(), "emq:{orders}:schedule"),
        (keys.dead(), "emq:{orders}:dead"),
        (keys.ring(), "emq:{orders}:ring"),
        (keys.paused(), "emq:{orders}:paused"),
        (keys.glimit(), "emq:{orders}:glimit"),
        (keys.gactive(), "emq:{orders}:gactive"),
        (keys.wake(), "emq:{orders}:wake"),
        (keys.gweight(), "emq:{orders}:gweight"),
        (keys.unique(), "emq:{orders}:unique"),
        (keys.meta(), "emq:{orders}:meta"),
        (job.as_str(), "emq:{orders}:job:JOB0NgWEfAEJfs"),
        (lane.as_str(), "emq:{orders}:g:PRT0KHTOWnGLuC:pending"),
    ];
    for (built, literal) in map {
        require(built == literal, || format!("{built} is not {literal}"))?;
        let parsed = Key::parse(built.as_bytes())?;
        require(parsed.to_string() == literal, || format!("{literal} parses to {parsed}"))?;
    }
    let grammar = job.len() - BrandedId::LEN;
    require(grammar == "emq:{orders}:job:".len() && grammar == 17, || format!("{grammar} bytes"))?;
    Ok(format!(
        "{} shapes byte for byte and back; {grammar} bytes of grammar before the id",
        map.len()
    ))
}

/// What isn't a branded id makes no key, and sends nothing.
async fn gate_of_ids(ground: &Ground) -> Finding {
    let connection = ground.connect().await?;
    let keys = QueueKeys::new(QueueName::new("orders")?);
    let before = connection.counters().commands;
    let mut words = Vec::new();
    for name in ["12345678901234", "not-a-valid-id"] {
        match keys.job_from_bytes(name.as_bytes()) {
            Ok(key) => return Err(format!("{name} made {key}").into()),
            Err(error) => words.push(format!("{name} at the {:?} gate", error.gate())),
        }
    }
    require(connection.counters().commands == before, || "something was sent".into())?;
    Ok(format!("refused before the wire: {}; 0 commands", words.join(", ")))
}

/// The version is read back through a fenced connection.
async fn fence(ground: &Ground) -> Finding {
    let fenced = ground.fenced().await?;
    let version = fenced.connection().command(Cmd::new("GET").arg("{emq}:version")).await?;
    let version = version.as_bytes().cloned().unwrap_or_default();
    require(*version == *WIRE_VERSION.as_bytes(), || format!("{version:?}"))?;
    Ok(format!("GET {{emq}}:version answers {WIRE_VERSION}; engine {}", fenced.engine()))
}

/// 500 hostile payloads through job keys, written and read in two pipelines.
async fn binary(ground: &Ground) -> Finding {
    const COUNT: usize = 500;
    let connection = ground.connect().await?;
    let keys = QueueKeys::new(QueueName::new("rung-3-1")?);
    let minter = Minter::new(NodeId::new(31)?);
    let mut jobs = Vec::with_capacity(COUNT);
    for n in 0..COUNT {
        let payload = format!("{n}\r\n\0$5\r\n{}\0\r\n", "x".repeat(n % 90)).into_bytes();
        jobs.push((keys.job(&minter.mint(Namespace::JOB)?), payload));
    }
    let writes: Pipeline = jobs
        .iter()
        .map(|(key, payload)| Cmd::new("HSET").arg(key).arg("payload").arg(payload))
        .collect();
    let reads: Pipeline =
        jobs.iter().map(|(key, _)| Cmd::new("HGET").arg(key).arg("payload")).collect();
    connection.pipeline(writes).await?;
    let replies = connection.pipeline(reads).await?;
    let equal = replies
        .iter()
        .zip(&jobs)
        .filter(|(reply, (_, payload))| reply.as_bytes().is_some_and(|b| **b == **payload))
        .count();
    let mut remove = Cmd::new("DEL");
    jobs.iter().for_each(|(key, _)| remove.push(key));
    connection.command(remove).await?;
    require(equal == COUNT, || format!("{equal} of {COUNT}"))?;
    Ok(format!("{equal} of {COUNT} payloads with CRLF and NUL round-trip in two pipelines"))
}

/// One queue, one slot.
async fn slots(_ground: &Ground) -> Finding {
    let of = |queue: &str| -> Result<u16, crate::Failure> {
        let keys = QueueKeys::new(QueueName::new(queue)?);
        let id = BrandedId::parse(b"JOB0NgWEfAEJfs")?;
        let all = [
            keys.pending().to_owned(),
            keys.active().to_owned(),
            keys.schedule().to_owned(),
            keys.dead().to_owned(),
            keys.ring().to_owned(),
            keys.wake().to_owned(),
            keys.meta().to_owned(),
            keys.unique().to_owned(),
            keys.job(&id),
            keys.lane(&id),
        ];
        let slot_of_queue = slot(keys.base().as_bytes());
        let stray = all.iter().find(|key| slot(key.as_bytes()) != slot_of_queue);
        require(stray.is_none(), || format!("{stray:?} is elsewhere"))?;
        Ok(slot_of_queue)
    };
    let (orders, fills, vector) = (of("orders")?, of("fills")?, crc16(b"123456789"));
    require((orders, fills, vector) == (105, 4165, 12_739), || {
        format!("{orders} {fills} {vector}")
    })?;
    Ok(format!("every key of orders in slot {orders}, of fills in {fills}; CRC16 vector {vector}"))
}
