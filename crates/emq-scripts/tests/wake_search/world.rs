//! The queue, its workers, and what can happen next.
//!
//! A worker here is the loop of emq-core's: it sends a turn when something has ended, when there
//! may be work and a slot is free, when a wake has to be passed on, or at the time of the next due
//! job; it parks when there is nothing to send and a slot is free. One turn of it is on its way at
//! a time. The beat is left out: what only a beat would find is what is looked for.

use super::server::{FLAT, Jobs, Rules, SOURCES, Server, total};

/// The most workers of a world.
pub(crate) const WORKERS: usize = 3;

/// A turn that the server has run and whose answer is on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Flight {
    asked: u8,
    pub(crate) got: Jobs,
    /// No wake came since it was sent: an answer that isn't full says that nothing is left.
    covers: bool,
    next_due: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Worker {
    slots: u8,
    pub(crate) gone: bool,
    stopping: bool,
    /// It stopped and has not passed the wake on yet.
    owes_nudge: bool,
    pub(crate) running: Jobs,
    /// Handlers that ended, of which the server doesn't know yet.
    pub(crate) done: Jobs,
    pub(crate) flight: Option<Flight>,
    parked: bool,
    /// The park was answered with a token, which isn't heeded yet.
    pub(crate) woken: bool,
    /// A token was heeded, and no turn was sent since.
    told: bool,
    hungry: bool,
    passes_on: bool,
    /// Ticks until its timer goes off.
    timer: Option<u8>,
}

impl Worker {
    fn new(slots: u8) -> Worker {
        Worker { slots, hungry: true, ..Worker::default() }
    }

    /// Slots that neither a handler nor a claim on its way may need.
    pub(crate) fn free(&self) -> u8 {
        let coming = self.flight.map_or(0, |flight| flight.asked);
        if self.stopping { 0 } else { self.slots.saturating_sub(total(&self.running) + coming) }
    }

    fn sends(&self) -> bool {
        let due = !self.stopping && self.timer == Some(0);
        let claims = self.hungry && self.free() > 0;
        let carries = total(&self.done) > 0;
        !self.gone && self.flight.is_none() && (carries || claims || self.passes_on || due)
    }

    fn parks(&self) -> bool {
        let waits = self.parked || self.woken;
        let idle = self.flight.is_none() && !self.hungry && !self.sends();
        !self.gone && !waits && idle && self.free() > 0
    }

    /// Whether something that only it knows is lost with it: a token, or a time.
    fn knows(&self) -> bool {
        let flies = self.flight.is_some_and(|flight| flight.next_due.is_some());
        let wake = self.woken || self.told || self.passes_on || self.owes_nudge;
        wake || self.timer.is_some() || flies
    }
}

/// What can happen. Jobs are named by their source, workers by their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    // Of a worker, as soon as it can.
    Send(usize),
    Land(usize),
    Heed(usize),
    Park(usize),
    Nudge(usize),
    /// One who took a token claims a single job, flat or from the lanes.
    HandClaims(usize),
    // Of handlers, operators, producers and time, whenever they like.
    Finish(usize, usize),
    Enqueue(usize),
    EnqueueMany([usize; 2]),
    Schedule(u8),
    Tick,
    PauseQueue,
    ResumeQueue,
    PauseLane(usize),
    ResumeLane(usize),
    Reap,
    Stop(usize),
    Die(usize),
    HandTakes,
}

impl Action {
    /// It comes by itself: as long as one of these can happen, the world isn't at rest.
    pub(crate) fn is_prompt(self) -> bool {
        use Action::{HandClaims, Heed, Land, Nudge, Park, Send};
        matches!(self, Send(_) | Land(_) | Heed(_) | Park(_) | Nudge(_) | HandClaims(_))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) workers: [Worker; WORKERS],
    /// One who claims by hand has taken a token.
    pub(crate) hand: bool,
    /// So many jobs may still come, and so much else may still happen.
    jobs: u8,
    events: u8,
    /// The last event was a batch that told fewer than it could.
    pub(crate) short_burst: bool,
}

pub(crate) type Step = (Action, World);

impl World {
    pub(crate) fn new(slots: &[u8], jobs: u8, events: u8) -> World {
        let gone = Worker { gone: true, ..Worker::default() };
        let mut workers = [gone; WORKERS];
        for (worker, slots) in workers.iter_mut().zip(slots) {
            *worker = Worker::new(*slots);
        }
        World { server: Server::new(), workers, hand: false, jobs, events, short_burst: false }
    }

    /// Work waits on a queue that isn't paused, a worker with a free slot is parked, and nobody
    /// is going to look. To be asked of a world at rest.
    pub(crate) fn is_stuck(&self) -> bool {
        let work = self.server.has_work() || self.server.next_due() == Some(0);
        let live = || self.workers.iter().filter(|worker| !worker.gone);
        let parked = live().any(|worker| worker.parked && worker.free() > 0);
        let timer = live().any(|worker| !worker.stopping && worker.timer.is_some());
        work && !self.server.paused && parked && !timer && !self.server.excused
    }

    /// Workers of the same size are alike.
    pub(crate) fn canonical(mut self) -> World {
        self.workers.sort_unstable();
        self
    }

    /// All that can happen next.
    pub(crate) fn steps(&self, rules: Rules) -> Vec<Step> {
        let mut steps = Vec::new();
        let base = World { short_burst: false, ..*self };
        for n in 0..WORKERS {
            base.worker_steps(rules, n, &mut steps);
        }
        if base.hand {
            base.hand_claims(rules, &mut steps);
        }
        base.outside_steps(rules, &mut steps);
        steps
    }

    /// By `claim`, or by `lane_claim` from any lane that can be served.
    fn hand_claims(&self, rules: Rules, steps: &mut Vec<Step>) {
        let mut from = |action: Action, source: usize| {
            let mut next = World { hand: false, ..*self };
            next.server.claim(rules, source);
            next.told(action, steps);
        };
        from(Action::HandClaims(FLAT), FLAT);
        let served = (1..SOURCES).filter(|lane| self.server.serves(*lane));
        let lanes: Vec<usize> = served.collect();
        for lane in if lanes.is_empty() { &[1][..] } else { &lanes } {
            from(Action::HandClaims(1), *lane);
        }
    }

    fn worker_steps(&self, rules: Rules, n: usize, steps: &mut Vec<Step>) {
        let worker = self.workers[n];
        if worker.sends() {
            self.send(rules, n, steps);
        }
        if worker.gone {
            return;
        }
        let with = |change: &dyn Fn(&mut Worker)| {
            let mut next = *self;
            change(&mut next.workers[n]);
            next
        };
        if worker.flight.is_some() {
            with(&Worker::land).told(Action::Land(n), steps);
        }
        if worker.woken {
            steps.push((Action::Heed(n), with(&Worker::heed)));
        }
        if worker.parks() {
            with(&|worker| worker.parked = true).told(Action::Park(n), steps);
        }
        if worker.owes_nudge {
            let mut next = with(&|worker| worker.owes_nudge = false);
            next.server.nudge(rules);
            next.told(Action::Nudge(n), steps);
        }
        for source in (0..SOURCES).filter(|source| worker.running[*source] > 0) {
            let ended = with(&|worker| {
                worker.running[source] -= 1;
                worker.done[source] += 1;
            });
            steps.push((Action::Finish(n, source), ended));
        }
        if self.events > 0 {
            let mut next = self.spend();
            next.die(n);
            steps.push((Action::Die(n), next));
            if !worker.stopping {
                let mut next = self.spend();
                next.workers[n].stop();
                steps.push((Action::Stop(n), next));
            }
        }
    }

    fn send(&self, rules: Rules, n: usize, steps: &mut Vec<Step>) {
        let worker = self.workers[n];
        let asked = worker.free();
        for (server, got) in self.server.turn(rules, &worker.done, asked) {
            let mut next = World { server, ..*self };
            let worker = &mut next.workers[n];
            let next_due = server.next_due();
            worker.flight = Some(Flight { asked, got, covers: true, next_due });
            worker.done = Jobs::default();
            (worker.passes_on, worker.told) = (false, false);
            if worker.timer == Some(0) {
                worker.timer = None;
            }
            next.told(Action::Send(n), steps);
        }
    }

    fn outside_steps(&self, rules: Rules, steps: &mut Vec<Step>) {
        let mut then = |action: Action, mut next: World, change: &dyn Fn(&mut Server)| {
            change(&mut next.server);
            next.told(action, steps);
        };
        for source in (0..SOURCES).filter(|_| self.jobs > 0) {
            let next = World { jobs: self.jobs - 1, ..*self };
            then(Action::Enqueue(source), next, &|server| server.enqueue(rules, source));
        }
        if self.server.paused {
            then(Action::ResumeQueue, *self, &|server| server.resume_queue(rules));
        }
        for lane in (1..SOURCES).filter(|lane| self.server.parked[*lane]) {
            let resume = |server: &mut Server| server.resume_lane(rules, lane);
            then(Action::ResumeLane(lane), *self, &resume);
        }
        if total(&self.server.orphans) > 0 {
            then(Action::Reap, *self, &|server| server.reap(rules));
        }
        if self.events > 0 && !self.server.paused {
            then(Action::PauseQueue, self.spend(), &|server| server.paused = true);
        }
        for lane in (1..SOURCES).filter(|lane| self.events > 0 && !self.server.parked[*lane]) {
            then(Action::PauseLane(lane), self.spend(), &|server| server.parked[lane] = true);
        }
        if self.events > 0 && self.jobs > 0 && self.server.can_schedule() && !self.hand {
            for ticks in 1..=2 {
                let next = World { jobs: self.jobs - 1, ..self.spend() };
                then(Action::Schedule(ticks), next, &|server| server.schedule(rules, ticks));
            }
        }
        // Who takes tokens and calls no turn keeps no time: not while something is scheduled.
        let untimed = self.server.scheduled() == 0;
        if self.events > 0 && self.server.wake > 0 && !self.hand && untimed {
            let next = World { hand: true, ..self.spend() };
            then(Action::HandTakes, next, &|server| server.wake -= 1);
        }
        self.burst_steps(rules, steps);
        self.tick_step(steps);
    }

    fn burst_steps(&self, rules: Rules, steps: &mut Vec<Step>) {
        if self.jobs < 2 {
            return;
        }
        for jobs in [[FLAT, FLAT], [FLAT, 1], [2, 2]] {
            let mut next = World { jobs: self.jobs - 2, ..*self };
            let runnable = next.server.enqueue_many(rules, &jobs);
            let parked = next.workers.iter().filter(|worker| worker.parked).count();
            let could = parked.min(usize::from(runnable));
            // A queue that rests has nobody on the way who would pass a wake on at once.
            next.short_burst = self.server.wake == 0 && usize::from(next.server.wake) < could;
            next.told(Action::EnqueueMany(jobs), steps);
        }
    }

    fn tick_step(&self, steps: &mut Vec<Step>) {
        if self.server.next_due().is_none_or(|due| due == 0) && self.server.scheduled() < 2 {
            return;
        }
        let mut next = *self;
        next.server.tick();
        let earlier = |ticks: &mut u8| *ticks = ticks.saturating_sub(1);
        for worker in &mut next.workers {
            worker.timer.iter_mut().for_each(earlier);
            let flight = worker.flight.as_mut();
            flight.and_then(|flight| flight.next_due.as_mut()).map(earlier);
        }
        if next != *self {
            steps.push((Action::Tick, next));
        }
    }

    fn spend(&self) -> World {
        World { events: self.events - 1, ..*self }
    }

    fn die(&mut self, n: usize) {
        let worker = self.workers[n];
        self.server.excused |= worker.knows();
        for source in 0..SOURCES {
            let flies = worker.flight.map_or(0, |flight| flight.got[source]);
            self.server.orphans[source] += worker.running[source] + worker.done[source] + flies;
        }
        self.workers[n] = Worker { slots: worker.slots, gone: true, ..Worker::default() };
    }

    /// The tokens that stand go to workers that are parked, any of them.
    fn told(self, action: Action, steps: &mut Vec<Step>) {
        let parked = |n: &usize| self.workers[*n].parked;
        if self.server.wake == 0 || !(0..WORKERS).any(|n| parked(&n)) {
            steps.push((action, self));
            return;
        }
        for n in (0..WORKERS).filter(parked) {
            let mut next = self;
            next.server.wake -= 1;
            (next.workers[n].parked, next.workers[n].woken) = (false, true);
            next.told(action, steps);
        }
    }
}

impl Worker {
    /// The answer of its turn arrives.
    fn land(&mut self) {
        let Some(flight) = self.flight.take() else { return };
        let full = total(&flight.got) >= flight.asked;
        if flight.asked > 0 {
            self.hungry = if full { true } else { self.hungry && !flight.covers };
        }
        for source in 0..SOURCES {
            self.running[source] += flight.got[source];
        }
        // What fell due meanwhile is found a millisecond later.
        self.timer = flight.next_due;
    }

    fn heed(&mut self) {
        self.woken = false;
        (self.hungry, self.told) = (true, true);
        self.passes_on = self.free() == 0;
        if let Some(flight) = &mut self.flight {
            flight.covers = false;
        }
    }

    /// Claims no more. A token that its park took in that instant goes with it.
    fn stop(&mut self) {
        (self.stopping, self.owes_nudge) = (true, true);
        (self.parked, self.woken) = (false, false);
    }
}
