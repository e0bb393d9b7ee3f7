//! Rung A: the connector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emq_keys::{BrandedId, Minter, Namespace, NodeId, QueueKeys, QueueName, slot};
use emq_scripts::{FenceError, FenceFailure, FenceOptions, Fenced, WIRE_VERSION};
use emq_testkit::Valkey;
use emq_wire::{Cmd, Connection, ConnectionState, Pipeline, Reply, Script, WireError};
use tokio::task::JoinSet;

use super::ground::{Ground, config_of, int, require};
use super::{Finding, Gate, gate, throughput};

pub(super) const GATES: &[Gate] = &[
    gate!("A1 fence", fence),
    gate!("A2 binary", binary),
    gate!("A3 slots", slots),
    gate!("A4 scripts", scripts),
    gate!("A5 order", order),
    gate!("A6 throughput", throughput::gate),
    gate!("A7 restart", restart),
    gate!("A8 bounds", bounds),
];

/// A fresh keyspace is claimed; a planted one is refused, and nothing else is written.
async fn fence(ground: &Ground) -> Finding {
    let fenced = ground.fenced().await?;
    let claimed = fenced.connection().command(Cmd::new("GET").arg("{emq}:version")).await?;
    let claimed = claimed.as_bytes().cloned().unwrap_or_default();
    require(*claimed == *WIRE_VERSION.as_bytes(), || format!("claimed as {claimed:?}"))?;

    let other = Valkey::start()?;
    other.cli(&["SET", "{emq}:version", "echomq:1.0.0"])?;
    let refused = Fenced::connect(config_of(&other)?, FenceOptions::default()).await;
    let words = match refused {
        Err(FenceFailure::Fence(FenceError::Version { expected, found })) => {
            format!("expected {expected}, found {found}")
        }
        Err(otherwise) => return Err(format!("refused with {otherwise:?}").into()),
        Ok(_) => return Err("another version was let in".into()),
    };
    let keys = other.cli(&["DBSIZE"])?;
    let version = other.cli(&["GET", "{emq}:version"])?;
    require(keys == "1" && version == "echomq:1.0.0", || {
        format!("{keys} keys, version {version} after the refusal")
    })?;
    Ok(format!(
        "fresh keyspace claimed as {WIRE_VERSION}; planted version refused ({words}), 1 key before and after"
    ))
}

/// Values are binary-safe, and a malformed id makes no key.
async fn binary(ground: &Ground) -> Finding {
    let connection = ground.connect().await?;
    let values: [&[u8]; 4] = [b"a\r\nb", b"\0\0", b"$3\r\nabc\r\n", b""];
    for value in values {
        connection.command(Cmd::new("SET").arg("a2").arg(value)).await?;
        let back = connection.command(Cmd::new("GET").arg("a2")).await?;
        require(back.as_bytes().is_some_and(|b| **b == *value), || format!("{value:?}: {back:?}"))?;
    }
    connection.command(Cmd::new("DEL").arg("a2")).await?;
    let keys = QueueKeys::new(QueueName::new("orders")?);
    let id = Minter::new(NodeId::new(1)?).mint(Namespace::JOB)?;
    let key = keys.job_from_bytes(id.as_bytes())?;
    let sent = connection.counters().commands;
    let malformed = keys.job_from_bytes(b"not-a-valid-id");
    let error = match malformed {
        Err(error) => error,
        Ok(key) => return Err(format!("a malformed id made {key}").into()),
    };
    require(connection.counters().commands == sent, || "something was sent".into())?;
    Ok(format!(
        "{} values round-trip; {key} built; not-a-valid-id refused before the wire ({error})",
        values.len()
    ))
}

/// Slots computed here equal the server's own.
async fn slots(_ground: &Ground) -> Finding {
    let cluster = Valkey::builder().config("cluster-enabled yes").start()?;
    let connection = Connection::connect(config_of(&cluster)?).await?;
    let id = BrandedId::encode(Namespace::JOB, 320_636_799_581_945_856)?;
    let orders = QueueKeys::new(QueueName::new("orders")?);
    let job = orders.job(&id);
    let vectors = [
        "emq:{orders}:pending",
        "emq:{orders}:active",
        "emq:{orders}:meta",
        "emq:{orders}:job:ORD0NgWEfAEJfs",
        "emq:{fills}:pending",
        "emq:{payments}:pending",
        "{emq}:version",
        "123456789",
        "{}a",
        "a{b}{c}",
        "{a",
        job.as_str(),
    ];
    for key in vectors {
        let theirs = connection.command(Cmd::new("CLUSTER").arg("KEYSLOT").arg(key)).await?;
        let (ours, theirs) = (slot(key.as_bytes()), int(&theirs)?);
        require(i64::from(ours) == theirs, || format!("{key}: {ours} here, {theirs} there"))?;
    }
    Ok(format!(
        "{} keys agree with CLUSTER KEYSLOT; orders {}, fills {}",
        vectors.len(),
        slot(b"emq:{orders}:pending"),
        slot(b"emq:{fills}:pending")
    ))
}

/// Loaded once, found warm, and found again after a flush, with refusals of their own type.
async fn scripts(ground: &Ground) -> Finding {
    let connection = ground.connect().await?;
    connection.command(Cmd::new("SCRIPT").arg("FLUSH").arg("SYNC")).await?;
    let nobody: [&str; 0] = [];
    let double = Script::new("double", "return ARGV[1] * 2");
    let refuse = Script::new("refuse", "return redis.error_reply('EMQSTALE not yours')");
    let first = int(&connection.eval(&double, &nobody, &["21"]).await?)?;
    let loads = connection.counters().script_loads;
    require((first, loads) == (42, 1), || format!("{first} after {loads} loads"))?;
    for n in 0..100 {
        int(&connection.eval(&double, &nobody, &[n.to_string()]).await?)?;
    }
    require(connection.counters().script_loads == 1, || "a warm call loaded".into())?;

    let mut pipeline = Pipeline::new();
    let mut call = double.call(0, 8);
    call.push("4");
    pipeline.push(call.clone());
    pipeline.push(Cmd::new("SCRIPT").arg("FLUSH").arg("SYNC"));
    pipeline.push(refuse.call(0, 0));
    pipeline.push(call);
    let replies = connection.pipeline(pipeline).await?;
    let refusal = replies[2].as_error().map(|error| error.class().to_owned());
    let right = replies[0] == Reply::Int(8)
        && refusal.as_deref() == Some("EMQSTALE")
        && replies[3] == Reply::Int(8);
    require(right, || format!("{replies:?}"))?;
    Ok(format!(
        "script_loads 1 after 101 calls; after a flush inside a pipeline the refusal is EMQSTALE, {} loads in all",
        connection.counters().script_loads
    ))
}

/// A long pipeline keeps its order with another task in between.
async fn order(ground: &Ground) -> Finding {
    const LENGTH: i64 = 10_000;
    let connection = ground.connect().await?;
    let beside = tokio::spawn({
        let connection = connection.clone();
        async move {
            let mut calls = 0_i64;
            loop {
                calls += 1;
                let own = connection.command(Cmd::new("INCR").arg("a5:beside")).await?;
                if own.as_int() != Some(calls) {
                    return Err(WireError::Unexpected { step: "INCR", found: format!("{own:?}") });
                }
                if connection.command(Cmd::new("EXISTS").arg("a5:stop")).await? == Reply::Int(1) {
                    return Ok(calls);
                }
            }
        }
    });
    let pipeline: Pipeline = (0..LENGTH).map(|_| Cmd::new("INCR").arg("a5")).collect();
    let replies = connection.pipeline(pipeline).await?;
    connection.command(Cmd::new("SET").arg("a5:stop").arg("1")).await?;
    let calls = beside.await??;
    let wrong = replies.iter().zip(1..).find(|(reply, n)| reply.as_int() != Some(*n));
    require(wrong.is_none() && replies.len() == LENGTH as usize, || format!("{wrong:?}"))?;
    connection.command(Cmd::new("DEL").arg("a5").arg("a5:beside").arg("a5:stop")).await?;
    Ok(format!("1..={LENGTH} in order, {calls} calls of another task interleaved"))
}

/// Killed by the server, then the server itself restarted: nothing is sent twice.
async fn restart(_ground: &Ground) -> Finding {
    let valkey = Valkey::builder().append_only(emq_testkit::Fsync::Always).start()?;
    let fenced = Fenced::connect(config_of(&valkey)?, FenceOptions::default()).await?;
    let connection = fenced.connection().clone();

    let killed = in_flight_through(&connection, "a7:kill", || {
        valkey.cli(&["CLIENT", "KILL", "TYPE", "normal"]).map(drop)
    })
    .await?;
    let after_kill = value(&connection, "a7:kill").await?;
    require(killed.answered <= after_kill && after_kill <= killed.sent, || {
        format!("{after_kill} increments, {killed:?}")
    })?;

    let restarted =
        in_flight_through(&connection, "a7:restart", || valkey.restart().map(drop)).await?;
    let after_restart = value(&connection, "a7:restart").await?;
    require(restarted.answered <= after_restart && after_restart <= restarted.sent, || {
        format!("{after_restart} increments, {restarted:?}")
    })?;
    require(restarted.disconnected > 0, || format!("nobody was in flight: {restarted:?}"))?;
    let version = connection.command(Cmd::new("GET").arg("{emq}:version")).await?;
    require(version.as_bytes().is_some_and(|v| **v == *WIRE_VERSION.as_bytes()), || {
        format!("{version:?} after the restart")
    })?;
    Ok(format!(
        "CLIENT KILL: {} sent, {} answered, {} Disconnected, counter {after_kill}; server restart: {} sent, {} answered, {} Disconnected, counter {after_restart}; re-fenced, {} reconnects",
        killed.sent,
        killed.answered,
        killed.disconnected,
        restarted.sent,
        restarted.answered,
        restarted.disconnected,
        connection.counters().reconnects,
    ))
}

/// What became of the calls around a loss.
#[derive(Debug, Default)]
struct Fate {
    sent: i64,
    answered: i64,
    disconnected: i64,
}

/// Keeps 32 callers incrementing while `disturb` takes the connection away, until each has met
/// the loss, or was between two calls then and has seen service again.
async fn in_flight_through<E>(
    connection: &Connection,
    key: &'static str,
    disturb: impl FnOnce() -> Result<(), E>,
) -> Result<Fate, crate::Failure>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let warm = Arc::new(tokio::sync::Semaphore::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..32 {
        let (connection, warm, over) = (connection.clone(), Arc::clone(&warm), Arc::clone(&over));
        callers.spawn(async move {
            let mut fate = Fate::default();
            while !over.load(Ordering::Acquire) {
                fate.sent += 1;
                match connection.command(Cmd::new("INCR").arg(key)).await {
                    Ok(Reply::Int(_)) => fate.answered += 1,
                    Err(WireError::Disconnected { .. }) => {
                        fate.disconnected += 1;
                        return Ok(fate);
                    }
                    Ok(reply) => return Err(format!("{reply:?}")),
                    Err(error) => return Err(error.to_string()),
                }
                if fate.sent == 50 {
                    warm.add_permits(1);
                }
            }
            Ok(fate)
        });
    }
    warm.acquire_many(32).await?.forget();
    let reconnects = connection.counters().reconnects;
    tokio::task::block_in_place(disturb)?;
    // A loss may be noticed a moment after the disturbance: service again is a reconnect.
    let mut state = connection.state();
    let again = state.wait_for(|state| {
        matches!(state, ConnectionState::Ready) && connection.counters().reconnects > reconnects
    });
    tokio::time::timeout(Duration::from_secs(30), again).await??;
    over.store(true, Ordering::Release);
    let mut total = Fate::default();
    while let Some(fate) = callers.join_next().await {
        let fate = fate??;
        total.sent += fate.sent;
        total.answered += fate.answered;
        total.disconnected += fate.disconnected;
    }
    Ok(total)
}

async fn value(connection: &Connection, key: &str) -> Result<i64, crate::Failure> {
    let reply = connection.command(Cmd::new("GET").arg(key)).await?;
    let bytes = reply.as_bytes().cloned().unwrap_or_default();
    Ok(std::str::from_utf8(&bytes)?.parse()?)
}

/// Over the bound: refused at once. A caller that timed out leaves the next ones aligned.
async fn bounds(ground: &Ground) -> Finding {
    const LIMIT: usize = 64;
    let config = ground.config()?.max_in_flight(LIMIT);
    let connection = Connection::connect(config.clone()).await?;
    ground.connect().await?.command(Cmd::new("DEL").arg("a8")).await?;
    ground.valkey().pause()?;
    let mut calls = JoinSet::new();
    let mut overloaded = 0;
    // The server stands still: the first LIMIT calls are in flight, the rest must be refused.
    let mut futures: Vec<_> = (0..LIMIT + 36)
        .map(|_| {
            Box::pin({
                let connection = connection.clone();
                async move { connection.command(Cmd::new("INCR").arg("a8")).await }
            })
        })
        .collect();
    for mut future in futures.drain(..) {
        let first = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::future::Future::poll(future.as_mut(), cx))
        });
        match first.await {
            std::task::Poll::Ready(Err(WireError::Overloaded { limit: LIMIT, .. })) => {
                overloaded += 1
            }
            std::task::Poll::Ready(other) => {
                ground.valkey().resume()?;
                return Err(format!("answered {other:?} by a server that stands still").into());
            }
            std::task::Poll::Pending => {
                calls.spawn(future);
            }
        }
    }
    ground.valkey().resume()?;
    let mut served = 0;
    while let Some(reply) = calls.join_next().await {
        served += i32::from(matches!(reply?, Ok(Reply::Int(_))));
    }
    require((overloaded, served) == (36, LIMIT as i32), || {
        format!("{overloaded} overloaded, {served} served")
    })?;

    let hasty =
        Connection::connect(config.response_timeout(Some(Duration::from_millis(50)))).await?;
    ground.valkey().pause()?;
    let late = hasty.command(Cmd::new("ECHO").arg("late")).await;
    ground.valkey().resume()?;
    require(matches!(late, Err(WireError::Timeout { .. })), || format!("{late:?}"))?;
    for n in 0..5 {
        // The answer of the late call is swallowed first; these wait for their own.
        let own = loop {
            match hasty.command(Cmd::new("ECHO").arg(n.to_string())).await {
                Err(WireError::Timeout { .. }) => {}
                own => break own?,
            }
        };
        require(own.as_bytes().is_some_and(|b| **b == *n.to_string().as_bytes()), || {
            format!("call {n} got {own:?}")
        })?;
    }
    Ok(format!(
        "{overloaded} of 100 answered Overloaded at once, {served} served; after a timed-out caller the next 5 are aligned"
    ))
}
