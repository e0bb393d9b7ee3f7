//! A step on the real queue.

use std::time::Duration;

use emq_keys::QueueKeys;
use emq_scripts::{
    AdmitOptions, CONTRACTS, CallError, Cancel, Checkpoint, Claim, Complete, ContractKey, Drain,
    Enqueue, EnqueueMany, Extend, Extension, Fenced, LaneClaim, LaneEnqueue, LaneLimit, LanePause,
    LaneReassign, LaneReassignBacklog, LaneResume, LaneWeight, ManyItem, Nudge, Promote, Purge,
    QueuePause, QueueResume, Reap, RefusalClass, Release, Remove, Requeue, Retry, Schedule,
    ScriptCall, ScriptName, Settle, SettleOutcome, Turn, When,
};
use emq_wire::{Cmd, Pipeline, Reply};

use super::answer::Answer;
use super::malformed::{Fault, faults};
use super::snapshot::Snapshot;
use super::step::{Admission, Beat, Due, Failed, Held, Options, Outcome, Settled, Step};
use super::world::{Moment, World};

/// Where steps are performed.
pub(crate) struct Ground<'a> {
    pub(crate) fenced: &'a Fenced,
    pub(crate) keys: &'a QueueKeys,
}

impl Ground<'_> {
    /// Performs a step and says what came of it. `before` is the world that it meets.
    pub(crate) async fn perform(&self, step: &Step, before: &World) -> Answer {
        match step {
            Step::Enqueue { .. }
            | Step::LaneEnqueue { .. }
            | Step::Schedule { .. }
            | Step::EnqueueMany { .. } => self.admit(step).await,
            Step::Malformed(fault) => self.malformed(&faults()[*fault]).await,
            step if step.is_planted() => self.plant(step, before).await,
            step => self.settle_or_operate(step).await,
        }
    }

    async fn call<C: ScriptCall>(
        &self,
        call: C,
        answer: impl FnOnce(C::Reply) -> Answer,
    ) -> Answer {
        Answer::of(self.fenced.call(self.keys, &call).await, answer)
    }

    async fn admit(&self, step: &Step) -> Answer {
        match step {
            Step::Enqueue { job: Admission { id, payload, options, .. }, durable } => {
                let options = pairs(options);
                let call = Enqueue { id: *id, payload, options, durable: *durable };
                self.call(call, Answer::Admitted).await
            }
            Step::LaneEnqueue { job: Admission { id, payload, options, .. }, group, durable } => {
                let (id, group, options, durable) = (*id, *group, pairs(options), *durable);
                let call = LaneEnqueue { id, payload, group, options, durable };
                self.call(call, Answer::Admitted).await
            }
            Step::Schedule { job, durable } => {
                let when = match job.due {
                    Due::Now => When::In(Duration::ZERO),
                    Due::In(delay_ms) => When::In(ms(delay_ms)),
                    Due::At(unix_ms) => When::At(unix_ms),
                };
                let (id, group, options) = (job.id, job.group, pairs(&job.options));
                let (payload, durable) = (&*job.payload, *durable);
                let call = Schedule { id, payload, group, when, options, durable };
                self.call(call, Answer::Admitted).await
            }
            Step::EnqueueMany { items, durable } => {
                let items: Vec<ManyItem<'_>> = items.iter().map(many_item).collect();
                let call = EnqueueMany { items: &items, durable: *durable };
                self.call(call, Answer::Verdicts).await
            }
            other => unreachable!("{other:?} admits nothing"),
        }
    }

    async fn settle_or_operate(&self, step: &Step) -> Answer {
        match step {
            Step::Claim { lease_ms, ticket } => {
                let call = Claim { lease: ms(*lease_ms), ticket: ticket.as_deref() };
                self.call(call, Answer::Claimed).await
            }
            Step::LaneClaim { lease_ms, ticket } => {
                let call = LaneClaim { lease: ms(*lease_ms), ticket: ticket.as_deref() };
                self.call(call, Answer::Claimed).await
            }
            Step::Complete(held) => {
                let (id, token, ticket) = (held.id, held.token, held.ticket.as_deref());
                self.call(Complete { id, token, ticket }, Answer::Completed).await
            }
            Step::Retry(failed) => self.retry(failed).await,
            Step::Turn(beat) => self.turn(beat).await,
            Step::Release(held) => {
                let (id, token, ticket) = (held.id, held.token, held.ticket.as_deref());
                self.call(Release { id, token, ticket }, |()| Answer::Released).await
            }
            Step::Extend { held, lease_ms } => {
                let (id, token, ticket) = (held.id, held.token, held.ticket.as_deref());
                let call = Extend { id, token, ticket, lease: ms(*lease_ms) };
                self.call(call, Answer::Extended).await
            }
            Step::Checkpoint { held, lease_ms, data } => {
                let (id, token, ticket) = (held.id, held.token, held.ticket.as_deref());
                let call = Checkpoint { id, token, ticket, lease: lease_ms.map(ms), data };
                self.call(call, Answer::Extended).await
            }
            Step::Promote { limit } => self.call(Promote { limit: *limit }, Answer::Count).await,
            Step::Reap { limit, lost_cap } => {
                self.call(Reap { limit: *limit, lost_cap: *lost_cap }, Answer::Reaped).await
            }
            Step::Cancel(id) => self.call(Cancel { id: *id }, Answer::Cancelled).await,
            Step::Requeue(id) => self.call(Requeue { id: *id }, Answer::Requeued).await,
            Step::Remove(id) => self.call(Remove { id: *id }, Answer::Removed).await,
            Step::Purge { before, limit } => {
                self.call(Purge { before: *before, limit: *limit }, Answer::Count).await
            }
            Step::Drain { scheduled, limit } => {
                self.call(Drain { scheduled: *scheduled, limit: *limit }, Answer::Count).await
            }
            Step::QueuePause => self.call(QueuePause, Answer::Switched).await,
            Step::QueueResume => self.call(QueueResume, Answer::Switched).await,
            Step::LaneLimit { group, limit } => {
                self.call(LaneLimit { group: *group, limit: *limit }, Answer::Switched).await
            }
            Step::LaneWeight { group, weight } => {
                self.call(LaneWeight { group: *group, weight: *weight }, Answer::Switched).await
            }
            Step::LanePause(group) => {
                self.call(LanePause { group: *group }, Answer::Switched).await
            }
            Step::LaneResume(group) => {
                self.call(LaneResume { group: *group }, Answer::Switched).await
            }
            Step::Reassign { id, to } => {
                self.call(LaneReassign { id: *id, to: *to }, Answer::Reassigned).await
            }
            Step::ReassignBacklog { from, to, limit } => {
                let call = LaneReassignBacklog { from: *from, to: *to, limit: *limit };
                self.call(call, Answer::Count).await
            }
            Step::Nudge => self.call(Nudge, |()| Answer::Nudged).await,
            other => unreachable!("{other:?} is no call"),
        }
    }

    /// The typed call cuts a long error before it sends it; the script must cut one as well, so
    /// this goes out as any other client could send it.
    async fn retry(&self, failed: &Failed) -> Answer {
        let Failed { held, delay_ms, max_attempts, error, force_dead } = failed;
        let call = Retry {
            id: held.id,
            token: held.token,
            ticket: held.ticket.as_deref(),
            delay: ms(*delay_ms),
            max_attempts: *max_attempts,
            error,
            force_dead: *force_dead,
        };
        let args = [
            held.id.to_string(),
            held.token.to_string(),
            held.ticket.clone().unwrap_or_default(),
            delay_ms.to_string(),
            max_attempts.to_string(),
            error.clone(),
            u8::from(*force_dead).to_string(),
        ];
        let keys = Retry::CONTRACT.keys.len();
        let reply = self.send(ScriptName::Retry, keys, &args).await;
        Answer::of(reply.and_then(|reply| call.decode(reply)), Answer::Retried)
    }

    async fn turn(&self, beat: &Beat) -> Answer {
        let settles: Vec<Settle<'_>> = beat.settles.iter().map(settle).collect();
        let extensions = beat.extensions.iter().map(|held| Extension {
            id: held.id,
            token: held.token,
            ticket: held.ticket.as_deref(),
        });
        let extensions: Vec<Extension<'_>> = extensions.collect();
        let call = Turn {
            ticket: beat.ticket.as_deref(),
            lease: ms(beat.lease_ms),
            claim: beat.claim,
            promote: beat.promote,
            reap: beat.reap,
            lost_cap: beat.lost_cap,
            max_attempts: beat.max_attempts,
            settles: &settles,
            extensions: &extensions,
        };
        self.call(call, |turned| Answer::Turned(turned.into())).await
    }

    async fn malformed(&self, fault: &Fault) -> Answer {
        match self.send(fault.script, fault.keys, &fault.args).await {
            Ok(Reply::Error(error)) => match RefusalClass::of_word(error.class()) {
                Some(class) => Answer::Refused(class),
                None => Answer::Broken(error.to_string()),
            },
            Ok(reply) => Answer::Broken(format!("{reply:?}")),
            Err(error) => Answer::Broken(error.to_string()),
        }
    }

    /// A call by hand: the first `keys` of the contract's keys, the base where it is taken, `args`.
    async fn send(
        &self,
        script: ScriptName,
        keys: usize,
        args: &[impl AsRef<[u8]>],
    ) -> Result<Reply, CallError> {
        let contract = CONTRACTS.iter().find(|it| it.script == script).expect("it has a contract");
        let mut cmd = self.fenced.bundle().script(script).call(keys, 256);
        for key in &contract.keys[..keys] {
            match key {
                ContractKey::Queue(fact) => cmd.push(self.keys.fact(*fact)),
                ContractKey::Reserve(key) => cmd.push(key),
            }
        }
        if contract.args.first() == Some(&"base") {
            cmd.push(self.keys.base());
        }
        args.iter().for_each(|arg| cmd.push(arg));
        Ok(self.fenced.connection().command(cmd).await?)
    }

    /// Does by plain commands what the model says that the step does.
    async fn plant(&self, step: &Step, before: &World) -> Answer {
        let mut after = before.clone();
        let nothing = Snapshot::default();
        let moment = Moment { from_ms: 0, to_ms: 0, after: &nothing, next_ms: None };
        after.apply(step, &moment);
        let commands = self.planting(step, &after);
        let pipeline: Pipeline = commands.into_iter().collect();
        if !pipeline.is_empty() {
            let replies = self.fenced.connection().pipeline(pipeline).await.expect("it is planted");
            if let Some(error) = replies.iter().find_map(Reply::as_error) {
                return Answer::Broken(error.to_string());
            }
        }
        Answer::Planted
    }

    fn planting(&self, step: &Step, after: &World) -> Vec<Cmd> {
        let keys = self.keys;
        let mut commands = match step {
            Step::Expire { id, deadline_ms } => {
                vec![rescore(keys.active(), *deadline_ms, id.as_str())]
            }
            Step::MakeDue { id, run_at_ms } => {
                vec![rescore(keys.schedule(), *run_at_ms, id.as_str())]
            }
            Step::EatWake { all: false } => vec![Cmd::new("LPOP").arg(keys.wake())],
            Step::EatWake { all: true } => vec![Cmd::new("DEL").arg(keys.wake())],
            Step::ForgetScripts => vec![Cmd::new("SCRIPT").arg("FLUSH").arg("SYNC")],
            Step::Tear(id) => vec![Cmd::new("DEL").arg(keys.job(id))],
            _ => Vec::new(),
        };
        if matches!(step, Step::Tear(_)) {
            let owned = after.snapshot().hash("unique");
            commands.push(Cmd::new("DEL").arg(keys.unique()));
            let field = |(key, id)| Cmd::new("HSET").arg(keys.unique()).arg(key).arg(id);
            commands.extend(owned.iter().map(field));
        }
        commands
    }
}

fn rescore(key: &str, score: u64, id: &str) -> Cmd {
    Cmd::new("ZADD").arg(key).arg("XX").arg(score.to_string()).arg(id)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn pairs(options: &Options) -> AdmitOptions<'_> {
    AdmitOptions {
        kind: options.kind,
        headers: options.headers,
        max_attempts: options.max_attempts,
        unique: options.unique.as_deref(),
    }
}

fn settle(settled: &Settled) -> Settle<'_> {
    let Held { id, token, ticket } = &settled.held;
    let outcome = match &settled.outcome {
        Outcome::Complete => SettleOutcome::Complete,
        Outcome::Release => SettleOutcome::Release,
        Outcome::Retry { delay_ms, error, force_dead } => {
            SettleOutcome::Retry { delay: ms(*delay_ms), error, force_dead: *force_dead }
        }
    };
    Settle { id: *id, token: *token, ticket: ticket.as_deref(), outcome }
}

fn many_item(item: &Admission) -> ManyItem<'_> {
    let run_at_ms = match item.due {
        Due::At(unix_ms) => Some(unix_ms),
        Due::Now | Due::In(_) => None,
    };
    let (id, payload, group) = (item.id, &*item.payload, item.group);
    ManyItem { id, payload, group, run_at_ms, options: pairs(&item.options) }
}
