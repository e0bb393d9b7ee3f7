//! What the turn script allows: settle a batch and claim the next, two calls in flight.

use emq_keys::BrandedId;
use emq_scripts::{ScriptName, Settle, SettleOutcome, Turn};
use emq_wire::Cmd;

use crate::Failure;
use crate::ground::{Ground, LEASE, Run, timed, waiting};
use crate::raw::{Batch, Raw};

/// Calls on their way at once, as a worker has them.
pub(crate) const IN_FLIGHT: usize = 2;
const TICKET: Option<&str> = Some("bench.1");

/// Works `n` jobs by the script alone, `batch` of them a call.
pub(crate) async fn limit(ground: &Ground, n: usize, batch: usize) -> Result<Run, Failure> {
    let queue = ground.queue("limit")?;
    let ids = ground.fill(&queue, n, &[]).await?;
    let mut raw = Raw::connect(&ground.valkey)?;
    raw.load(ground.bus.fenced().bundle().script(ScriptName::Turn))?;
    let batches: Vec<&[BrandedId]> = ids.chunks(batch).collect();
    // A batch is settled when the answer that claimed it is there: two calls later.
    let turns = 0..batches.len() + IN_FLIGHT;
    let cmds: Vec<Cmd> = turns
        .map(|at| {
            let done = at.checked_sub(IN_FLIGHT).map_or(&[][..], |at| batches[at]);
            let settles: Vec<_> = done.iter().map(|id| settled(*id, 1)).collect();
            ground.bus.fenced().command(queue.keys(), &turn(batch, &settles))
        })
        .collect();
    let calls = Batch::cut(&cmds, 1);
    let run = timed(ground, n, async {
        raw.run(&calls, IN_FLIGHT)?;
        Ok(())
    });
    let run = run.await?;
    // In the order of their ids, as foreseen: or some would be left.
    waiting(&queue, 0).await?;
    Ok(run)
}

/// One turn as a worker sends it.
pub(crate) fn turn<'a>(claim: usize, settles: &'a [Settle<'a>]) -> Turn<'a> {
    Turn {
        ticket: TICKET,
        lease: LEASE,
        claim: u32::try_from(claim).unwrap_or(u32::MAX),
        promote: 200,
        reap: 0,
        lost_cap: 10,
        max_attempts: 25,
        settles,
        extensions: &[],
    }
}

/// A job that was claimed by [`turn`] is done.
pub(crate) fn settled(id: BrandedId, token: u64) -> Settle<'static> {
    Settle { id, token, ticket: TICKET, outcome: SettleOutcome::Complete }
}
