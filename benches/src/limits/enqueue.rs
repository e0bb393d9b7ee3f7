//! Enqueueing, beside calls that do nothing and beside the scripts' own limits.

use std::time::Instant;

use contender::payload;
use emq_core::{Enqueued, NewJob, Queue, Verdict};
use emq_scripts::{AdmitOptions, Enqueue, EnqueueMany, ManyItem, ScriptName};
use emq_wire::{Cmd, Script};

use crate::board::{Board, Bound};
use crate::figures::{median, ratio, spread};
use crate::ground::{Ground, waiting};
use crate::raw::{Batch, Raw};
use crate::{Failure, Plan, require};

/// Tasks that share a queue.
const TASKS: usize = 50;
/// Calls of one write of the raw socket, and writes that are under way at once.
const DEPTH: usize = 100;
const WINDOW: usize = 4;
/// Jobs of one call of the list script: as many as ours sends in one. As many calls are under way.
const MANY: usize = EnqueueMany::MAX_ITEMS;
const MANY_WINDOW: usize = 3;
/// Jobs that the caller hands over in one list.
const LIST: usize = 20_000;

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let ground = Ground::start().await?;
    let mut raw = Raw::connect(&ground.valkey)?;
    for name in [ScriptName::Enqueue, ScriptName::EnqueueMany] {
        raw.load(ground.bus.fenced().bundle().script(name))?;
    }
    one_by_one(plan, board, &ground).await?;
    many_tasks(plan, board, &ground, &mut raw).await?;
    lists(plan, board, &ground, &mut raw).await
}

async fn one_by_one(plan: &Plan, board: &mut Board, ground: &Ground) -> Result<(), Failure> {
    let n = plan.size(4_000, 20_000);
    let empty = Script::new("bare", "return 1");
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        ground.empty().await?;
        let begun = Instant::now();
        for _ in 0..n {
            ground.command(empty.call(0, 0)).await?;
        }
        bare.push(n as f64 / begun.elapsed().as_secs_f64());

        let queue = ground.queue("one")?;
        let begun = Instant::now();
        for i in 0..n {
            admitted(queue.enqueue(payload(i)).await?)?;
        }
        ours.push(n as f64 / begun.elapsed().as_secs_f64());
        waiting(&queue, n).await?;
    }
    let target = "enqueue 1 by 1, beside a bare call";
    compare(board, target, &ours, &bare, 0.9);
    Ok(())
}

async fn many_tasks(
    plan: &Plan,
    board: &mut Board,
    ground: &Ground,
    raw: &mut Raw,
) -> Result<(), Failure> {
    let n = plan.size(20_000, 100_000);
    let (mut limit, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        ground.empty().await?;
        let queue = ground.queue("script")?;
        let mut cmds = Vec::with_capacity(n);
        for (i, id) in ground.mint(n).await?.into_iter().enumerate() {
            let payload = payload(i);
            let options = AdmitOptions::default();
            let call = Enqueue { id, payload: payload.as_bytes(), options, durable: false };
            cmds.push(ground.bus.fenced().command(queue.keys(), &call));
        }
        let took = raw.run(&Batch::cut(&cmds, DEPTH), WINDOW)?;
        limit.push(n as f64 / took.as_secs_f64());
        waiting(&queue, n).await?;

        ground.empty().await?;
        let queue = ground.queue("tasks")?;
        let begun = Instant::now();
        share(&queue, n).await?;
        ours.push(n as f64 / begun.elapsed().as_secs_f64());
        waiting(&queue, n).await?;
    }
    compare(board, "enqueue, 50 tasks, beside the script's limit", &ours, &limit, 0.8);
    Ok(())
}

async fn share(queue: &Queue, n: usize) -> Result<(), Failure> {
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for i in (task..n).step_by(TASKS) {
                    admitted(queue.enqueue(payload(i)).await?)?;
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn lists(
    plan: &Plan,
    board: &mut Board,
    ground: &Ground,
    raw: &mut Raw,
) -> Result<(), Failure> {
    let n = plan.size(40_000, 200_000);
    let (mut limit, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        ground.empty().await?;
        let queue = ground.queue("script")?;
        let cmds = calls(ground, &queue, n).await?;
        let took = raw.run(&Batch::cut(&cmds, 1), MANY_WINDOW)?;
        limit.push(n as f64 / took.as_secs_f64());
        waiting(&queue, n).await?;

        ground.empty().await?;
        let queue = ground.queue("list")?;
        let ids = ground.mint(n).await?;
        let jobs = ids.into_iter().enumerate().map(|(i, id)| NewJob::new(id, payload(i)));
        let jobs: Vec<_> = jobs.collect();
        let begun = Instant::now();
        let mut fresh = 0;
        for list in jobs.chunks(LIST) {
            let verdicts = queue.enqueue_many(list).await?;
            fresh += verdicts.iter().filter(|said| matches!(said, Verdict::Admitted(_))).count();
        }
        ours.push(n as f64 / begun.elapsed().as_secs_f64());
        require(fresh == n, || format!("{fresh} of {n} fresh jobs were admitted"))?;
        waiting(&queue, n).await?;
    }
    compare(board, "enqueue_many, beside the script's limit", &ours, &limit, 0.9);
    Ok(())
}

/// The list script's calls for `n` jobs.
async fn calls(ground: &Ground, queue: &Queue, n: usize) -> Result<Vec<Cmd>, Failure> {
    let ids = ground.mint(n).await?;
    let payloads: Vec<String> = (0..n).map(payload).collect();
    let item = |(id, payload)| -> ManyItem<'_> {
        let payload: &String = payload;
        let options = AdmitOptions::default();
        ManyItem { id, payload: payload.as_bytes(), group: None, run_at_ms: None, options }
    };
    let items: Vec<_> = ids.into_iter().zip(&payloads).map(item).collect();
    let call = |items| {
        let call = EnqueueMany { items, durable: false };
        ground.bus.fenced().command(queue.keys(), &call)
    };
    Ok(items.chunks(MANY).map(call).collect())
}

fn admitted(said: Enqueued) -> Result<(), Failure> {
    require(matches!(said, Enqueued::Admitted(_)), || format!("a fresh job was {said:?}"))
}

fn compare(board: &mut Board, target: &str, ours: &[f64], limit: &[f64], at_least: f64) {
    let (our, most) = (median(ours.iter().copied()), median(limit.iter().copied()));
    let measured = format!("{our:.0}/s ({}) of {most:.0}/s ({})", spread(ours), spread(limit));
    board.judge(target, measured, ratio(ours, limit), Bound::AtLeast(at_least));
}
