//! A run: steps on a queue of its own, each compared with the model.

use std::collections::BTreeSet;
use std::fmt;

use emq_keys::{BrandedId, QueueKeys};
use emq_scripts::{Fenced, Nudge, TurnJob};
use emq_wire::{Cmd, Pipeline};
use tokio::sync::RwLock;

use super::answer::Answer;
use super::coverage::Coverage;
use super::generate::{Generator, LANES};
use super::laws::Laws;
use super::perform::Ground;
use super::snapshot::Snapshot;
use super::step::Step;
use super::world::{Moment, World};
use crate::support::checkup::checkup;
use crate::support::{lane, queue};

/// The server's script cache, which all runs share.
static CACHE: RwLock<()> = RwLock::const_new(());

/// A queue and its model, side by side.
struct Run {
    fenced: Fenced,
    keys: QueueKeys,
    world: World,
    last: Snapshot,
    last_ms: u64,
}

/// A step after which server and model differ, or a law is broken.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Every step of the run, up to and with the one that failed.
    pub(crate) history: Vec<Step>,
    /// What is wrong.
    pub(crate) why: String,
}

/// The last steps, and what is wrong after them.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 30;
        let hidden = self.history.len().saturating_sub(SHOWN);
        if hidden > 0 {
            writeln!(f, "... {hidden} steps")?;
        }
        for (n, step) in self.history.iter().enumerate().skip(hidden) {
            let text: String = step.told().chars().take(600).collect();
            writeln!(f, "{:5}  {text}", n + 1)?;
        }
        write!(f, "{}", self.why)
    }
}

/// Random steps from a seed on an own queue of this name.
///
/// # Errors
/// At the first step that fails.
pub(crate) async fn random(
    fenced: &Fenced,
    name: &str,
    seed: u64,
    steps: usize,
) -> Result<Coverage, Failure> {
    let mut run = Run::start(fenced, name).await;
    let mut generator = Generator::new(seed);
    let (mut history, mut coverage) = (Vec::new(), Coverage::default());
    while history.len() < steps {
        let step = generator.next(&run.world);
        if !step.is_defined(&run.world) {
            continue;
        }
        history.push(step.clone());
        let case = Coverage::case(&step, &run.world);
        match run.take(&step).await {
            Ok(answer) => {
                coverage.count(&case, &answer);
                generator.learn(&step, &answer);
            }
            Err(why) => {
                run.end().await;
                return Err(Failure { history, why });
            }
        }
    }
    if let Err(why) = run.examined().await {
        run.end().await;
        return Err(Failure { history, why });
    }
    run.end().await;
    Ok(coverage)
}

/// These steps on an own queue of this name. A step that the specification says nothing about in
/// the world that it meets is left out.
///
/// # Errors
/// At the first step that fails.
pub(crate) async fn replay(fenced: &Fenced, name: &str, steps: &[Step]) -> Result<(), Failure> {
    let mut run = Run::start(fenced, name).await;
    let mut history = Vec::new();
    for step in steps {
        if !step.is_defined(&run.world) {
            continue;
        }
        history.push(step.clone());
        if let Err(why) = run.take(step).await {
            run.end().await;
            return Err(Failure { history, why });
        }
    }
    run.end().await;
    Ok(())
}

impl Run {
    async fn start(fenced: &Fenced, name: &str) -> Run {
        let (fenced, keys) = (fenced.clone(), queue(name));
        let (world, last) = (World::default(), Snapshot::default());
        let mut run = Run { fenced, keys, world, last, last_ms: 0 };
        let (last, now_ms) = run.read(&[]).await;
        assert!(last.is_empty(), "the queue {name} is in use");
        run.last_ms = now_ms;
        run
    }

    /// Takes a step on both sides and compares them.
    async fn take(&mut self, step: &Step) -> Result<Answer, String> {
        let ground = Ground { fenced: &self.fenced, keys: &self.keys };
        let answer = {
            // A call that finds its script forgotten loads it; that mustn't be forgotten at once.
            let _exclusive;
            let _shared;
            if *step == Step::ForgetScripts {
                _exclusive = CACHE.write().await;
            } else {
                _shared = CACHE.read().await;
            }
            ground.perform(step, &self.world).await
        };
        let (after, now_ms) = self.read(&step.ids()).await;

        let next_ms = match &answer {
            Answer::Turned(turned) => turned.next_ms,
            _ => None,
        };
        let moment = Moment { from_ms: self.last_ms, to_ms: now_ms, after: &after, next_ms };
        let expected = self.world.apply(step, &moment);
        if answer != expected {
            let (answer, expected) = (told(&answer), told(&expected));
            return Err(format!("the server answers {answer}\nthe model answers {expected}"));
        }
        let differences = after.differences(&self.world.snapshot());
        if !differences.is_empty() {
            return Err(differences.join("\n"));
        }
        let torn = self.world.torn().iter().map(BrandedId::to_string).collect();
        Laws { before: &self.last, after: &after, step, torn: &torn }.check()?;
        (self.last, self.last_ms) = (after, now_ms);
        Ok(answer)
    }

    /// The queue as it is, with the rows that the model knows and those of these ids.
    async fn read(&self, ids: &[BrandedId]) -> (Snapshot, u64) {
        let jobs: BTreeSet<BrandedId> = self.world.rows.keys().chain(ids).copied().collect();
        let lanes: Vec<BrandedId> = (0..LANES).map(lane).collect();
        Snapshot::read(self.fenced.connection(), &self.keys, &jobs, &lanes).await
    }

    /// Lets the doctor look at what the run has made. It finds the ids that the run has torn, and
    /// nothing else; a token is put back first, for those that the run has taken away.
    async fn examined(&self) -> Result<(), String> {
        self.fenced.call(&self.keys, &Nudge).await.expect("it is answered");
        let torn: Vec<String> = self.world.torn().iter().map(BrandedId::to_string).collect();
        let mut found = checkup(&self.fenced, &self.keys, false).await;
        found.retain(|it| !torn.iter().any(|id| format!("{it:?}").contains(id)));
        if found.is_empty() { Ok(()) } else { Err(format!("the doctor finds {found:#?}")) }
    }

    /// Leaves nothing behind on a server that others use.
    async fn end(self) {
        let connection = self.fenced.connection();
        let keys = connection.command(Cmd::new("KEYS").arg(format!("{}*", self.keys.base())));
        let keys = keys.await.expect("the queue's keys are listed");
        let keys = keys.as_array().unwrap_or_default();
        let names = keys.iter().filter_map(|key| key.as_bytes());
        let pipeline: Pipeline = names.map(|key| Cmd::new("UNLINK").arg(key)).collect();
        if !pipeline.is_empty() {
            connection.pipeline(pipeline).await.expect("the queue is removed");
        }
    }
}

/// An answer with all that is compared.
fn told(answer: &Answer) -> String {
    match answer {
        Answer::Claimed(Some(job)) => {
            format!("{answer:?} payload {:?} checkpoint {:?}", job.payload, job.checkpoint)
        }
        Answer::Turned(turned) => {
            let parts = |job: &TurnJob| format!("{:?} {:?}", job.payload, job.checkpoint);
            let parts: Vec<String> = turned.jobs.iter().map(parts).collect();
            format!("{answer:?} payloads and checkpoints {parts:?}")
        }
        other => format!("{other:?}"),
    }
}
