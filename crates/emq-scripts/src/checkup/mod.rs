//! A whole queue, examined step by step while it runs.

mod page;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use emq_keys::{BrandedId, Key, QueueFact, QueueKeys};
use emq_wire::{Cmd, Reply};

use self::page::{Page, checked, rest, strings};
use crate::bundle::Bundle;
use crate::call::ScriptCall;
use crate::calls::{Doctor, Look, Next, Seat, Standing};
use crate::finding::{Diagnosis, Finding, Name};
use crate::refusal::CallError;

/// Jobs, lanes or keys in one call: well under a millisecond of the server's time.
const BATCH: usize = 100;
/// Entries of the ring in one read.
const WINDOW: usize = 500;
/// What a scan is asked to look at in one call.
const PAGE: i64 = 500;
/// How often a lost wake is looked for at most, while the work's head keeps changing.
const WAKE_LOOKS: u8 = 4;

/// Examines a whole queue while it runs, in bounded steps: yields one command after another, takes
/// each reply, and says what it means. It does no I/O and knows no clock.
///
/// Each finding was true at one instant, inside one call of the script; what is merely read in
/// between (scans, windows of the ring) only says where to look. What was out of order before the
/// checkup began, and stays so, is found; jobs that move meanwhile are no false alarm.
///
/// ```no_run
/// use emq_keys::{QueueKeys, QueueName};
/// use emq_scripts::{Checkup, CheckupOptions, CheckupStep, FenceOptions, Fenced};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let fenced = Fenced::connect("valkey://127.0.0.1".parse()?, FenceOptions::default()).await?;
/// let keys = QueueKeys::new(QueueName::new("orders")?);
/// let mut checkup = Checkup::new(keys, CheckupOptions { repair: true, ..Default::default() });
/// while let Some(step) = checkup.next(fenced.bundle()) {
///     match step {
///         CheckupStep::Send(cmd) => {
///             for diagnosis in checkup.answer(fenced.connection().command(cmd).await?)? {
///                 println!("{} (mended: {})", diagnosis.finding, diagnosis.mended);
///             }
///         }
///         CheckupStep::Wait(time) => tokio::time::sleep(time).await,
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Checkup {
    keys: QueueKeys,
    options: CheckupOptions,
    todo: VecDeque<Task>,
    /// How often each lane was seen in the ring.
    ring: HashMap<Bytes, u8>,
    seats: Vec<Seat>,
    standings: Vec<Standing>,
    told: HashSet<Diagnosis>,
    examined: Examined,
}

/// How a [`Checkup`] goes about it.
#[derive(Clone, Copy, Debug)]
pub struct CheckupOptions {
    /// Whether to mend what is found, where that is safe.
    pub repair: bool,
    /// How long work may wait without a wake token before the wake counts as lost. A worker that has
    /// just taken the token is on its way, which takes it a round trip.
    pub wake_patience: Duration,
}

impl Default for CheckupOptions {
    /// Look only; one second.
    fn default() -> Self {
        Self { repair: false, wake_patience: Duration::from_secs(1) }
    }
}

/// What a [`Checkup`] wants next.
#[derive(Clone, Debug)]
pub enum CheckupStep {
    /// Send this and hand the reply to [`Checkup::answer`]. When no reply comes, the next step is the
    /// same again; running twice does no harm.
    Send(Cmd),
    /// Wait so long.
    Wait(Duration),
}

/// How much a [`Checkup`] has looked at. A job is looked at once by its row and once by the set that
/// it was seen in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Examined {
    /// Looks at jobs.
    pub jobs: u64,
    /// Looks at lanes.
    pub lanes: u64,
    /// Looks at unique keys.
    pub unique_keys: u64,
}

#[derive(Clone, Debug)]
enum Task {
    /// A part of the ring, from a place in it.
    Window(usize),
    /// The keys of the queue.
    Keys(Bytes),
    /// The members of a sorted set: a fixed one, or a lane's.
    Members(Set, Bytes),
    /// The values of a setting of lanes.
    Settings(QueueFact, Bytes),
    /// The unique keys.
    UniqueKeys(Bytes),
    /// What was collected goes out.
    Flush,
    Jobs(Vec<Seat>),
    Lanes(Vec<Standing>),
    Unique(Vec<Bytes>),
    Leases,
    Queue {
        mark: Option<Bytes>,
        looks: u8,
    },
    Wait,
}

#[derive(Clone, Copy, Debug)]
enum Set {
    Fixed(QueueFact),
    Lane(BrandedId),
}

impl Checkup {
    /// A checkup of a queue.
    #[must_use]
    pub fn new(keys: QueueKeys, options: CheckupOptions) -> Checkup {
        let start = || Bytes::from_static(b"0");
        let fixed = |fact| Task::Members(Set::Fixed(fact), start());
        let todo = [
            Task::Window(0),
            Task::Keys(start()),
            fixed(QueueFact::Pending),
            fixed(QueueFact::Active),
            fixed(QueueFact::Schedule),
            fixed(QueueFact::Dead),
            Task::Settings(QueueFact::Glimit, start()),
            Task::Settings(QueueFact::Gweight, start()),
            Task::Flush,
            // After the jobs: their mending decides which leases are out.
            Task::Leases,
            Task::UniqueKeys(start()),
            Task::Queue { mark: None, looks: 1 },
        ];
        Checkup {
            keys,
            options,
            todo: VecDeque::from(todo),
            ring: HashMap::new(),
            seats: Vec::new(),
            standings: Vec::new(),
            told: HashSet::new(),
            examined: Examined::default(),
        }
    }

    /// The next step; `None` when the queue was examined whole. `bundle` is the connection's,
    /// [`crate::Fenced::bundle`].
    pub fn next(&mut self, bundle: &Bundle) -> Option<CheckupStep> {
        while matches!(self.todo.front(), Some(Task::Flush)) {
            self.todo.pop_front();
            self.send_collected(1);
        }
        if matches!(self.todo.front(), Some(Task::Wait)) {
            self.todo.pop_front();
            return Some(CheckupStep::Wait(self.options.wake_patience));
        }
        let task = self.todo.front()?;
        Some(CheckupStep::Send(match self.call(task) {
            Some(call) => call.encode(bundle.script(Doctor::SCRIPT), &self.keys),
            None => self.plain(task),
        }))
    }

    /// Takes the reply to the command sent last; answers what it shows that wasn't told before.
    ///
    /// # Errors
    /// As a script's call; the step stays the next one.
    pub fn answer(&mut self, reply: Reply) -> Result<Vec<Diagnosis>, CallError> {
        let Some(task) = self.todo.front().cloned() else { return Ok(Vec::new()) };
        let mut diagnoses = match self.call(&task) {
            Some(call) => {
                let doctored = call.decode(reply)?;
                self.go_on(task, doctored.next, &doctored.diagnoses)?;
                doctored.diagnoses
            }
            None => self.take(&task, reply)?,
        };
        self.send_collected(BATCH);
        diagnoses.retain(|diagnosis| self.told.insert(diagnosis.clone()));
        Ok(diagnoses)
    }

    /// How much was looked at so far.
    #[must_use]
    pub fn examined(&self) -> Examined {
        self.examined
    }

    /// The script's call of a task.
    fn call<'a>(&self, task: &'a Task) -> Option<Doctor<'a>> {
        let look = match task {
            Task::Jobs(seats) => Look::Jobs(seats),
            Task::Lanes(standings) => Look::Lanes(standings),
            Task::Unique(keys) => Look::Unique(keys),
            Task::Leases => Look::Leases,
            Task::Queue { mark, .. } => Look::Queue { mark: mark.as_deref() },
            _ => return None,
        };
        Some(Doctor { look, repair: self.options.repair })
    }

    /// The plain read of a task.
    fn plain(&self, task: &Task) -> Cmd {
        let scan = |command, key: &str, cursor: &Bytes| {
            Cmd::new(command).arg(key).arg(cursor).arg("COUNT").int(PAGE)
        };
        match task {
            Task::Keys(cursor) => {
                let pattern = format!("{}*", self.keys.base());
                Cmd::new("SCAN").arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").int(PAGE)
            }
            Task::Members(Set::Fixed(fact), cursor) => scan("ZSCAN", self.keys.fact(*fact), cursor),
            Task::Members(Set::Lane(group), cursor) => {
                scan("ZSCAN", &self.keys.lane(group), cursor)
            }
            Task::Settings(fact, cursor) => scan("HSCAN", self.keys.fact(*fact), cursor),
            Task::UniqueKeys(cursor) => scan("HSCAN", self.keys.unique(), cursor),
            Task::Window(from) => {
                let from = i64::try_from(*from).unwrap_or(i64::MAX);
                let last = from.saturating_add(WINDOW as i64 - 1);
                Cmd::new("LRANGE").arg(self.keys.ring()).int(from).int(last)
            }
            _ => unreachable!("{task:?} is a call of the script, or sends nothing"),
        }
    }

    /// What is left of a task whose call was answered.
    fn go_on(&mut self, task: Task, next: Next, found: &[Diagnosis]) -> Result<(), CallError> {
        let wake_is_missing = || found.iter().any(|seen| seen.finding == Finding::WakeMissing);
        self.todo.pop_front();
        match (task, next) {
            (Task::Jobs(seats), Next::Examined(done)) => {
                self.examined.jobs += done as u64;
                self.todo.put_first(rest(seats, done)?.map(Task::Jobs));
            }
            (Task::Lanes(standings), Next::Examined(done)) => {
                self.examined.lanes += done as u64;
                self.todo.put_first(rest(standings, done)?.map(Task::Lanes));
            }
            (Task::Unique(keys), Next::Examined(done)) => {
                self.examined.unique_keys += done as u64;
                self.todo.put_first(rest(keys, done)?.map(Task::Unique));
            }
            (task @ Task::Leases, Next::Again(true)) if !found.is_empty() => {
                self.todo.push_front(task);
            }
            (Task::Queue { looks, .. }, Next::Mark(mark))
                if !mark.is_empty() && !wake_is_missing() && looks < WAKE_LOOKS =>
            {
                let mark = Some(mark);
                self.todo.extend([Task::Wait, Task::Queue { mark, looks: looks + 1 }]);
            }
            _ => {}
        }
        Ok(())
    }

    /// What a plain read shows, and what it leads to.
    fn take(&mut self, task: &Task, reply: Reply) -> Result<Vec<Diagnosis>, CallError> {
        if let Task::Window(from) = task {
            let lanes = strings(&checked(reply)?)?;
            self.todo.pop_front();
            self.see_window(*from, lanes);
            return Ok(Vec::new());
        }
        let page = match (task, reply) {
            // A lane of another type: the look at the lane says so.
            (Task::Members(Set::Lane(_), _), Reply::Error(error)) if error.is("WRONGTYPE") => {
                self.todo.pop_front();
                return Ok(Vec::new());
            }
            (_, reply) => Page::read(reply)?,
        };
        self.todo.pop_front();
        let mut foreign = Vec::new();
        if let Some(cursor) = page.cursor {
            self.todo.push_front(match task {
                Task::Members(set, _) => Task::Members(*set, cursor),
                Task::Settings(fact, _) => Task::Settings(*fact, cursor),
                Task::UniqueKeys(_) => Task::UniqueKeys(cursor),
                _ => Task::Keys(cursor),
            });
        }
        match task {
            Task::Members(set, _) => {
                let lane = if let Set::Lane(group) = set { Some(*group) } else { None };
                let seats = page.items.into_iter().step_by(2).map(|id| Seat { lane, id });
                self.seats.extend(seats);
            }
            Task::Settings(..) => self.see_settings(&page.items),
            Task::UniqueKeys(_) => {
                let keys: Vec<Bytes> = page.items.into_iter().step_by(2).collect();
                self.todo.put_first(keys.chunks(BATCH).map(|keys| Task::Unique(keys.to_vec())));
            }
            _ => page.items.into_iter().for_each(|key| foreign.extend(self.see_key(key))),
        }
        Ok(foreign)
    }

    fn see_window(&mut self, from: usize, lanes: Vec<Bytes>) {
        let full = lanes.len() >= WINDOW;
        for lane in lanes {
            let seen = self.ring.entry(lane).or_default();
            *seen = 2.min(*seen + 1);
        }
        if full {
            self.todo.push_front(Task::Window(from + WINDOW));
        } else {
            let seen = self.ring.iter();
            self.standings
                .extend(seen.map(|(lane, seen)| Standing { lane: lane.clone(), seen: *seen }));
        }
    }

    /// A row, a lane, a fact; or none of ours.
    fn see_key(&mut self, key: Bytes) -> Option<Diagnosis> {
        match Key::parse(&key) {
            Ok(Key::Job { id, .. }) => {
                self.seats.push(Seat { lane: None, id: Bytes::copy_from_slice(id.as_bytes()) });
            }
            Ok(Key::Lane { group, .. }) => {
                let lane = Bytes::copy_from_slice(group.as_bytes());
                if !self.ring.contains_key(&lane) {
                    self.standings.push(Standing { lane, seen: 0 });
                }
                self.todo.push_front(Task::Members(Set::Lane(group), Bytes::from_static(b"0")));
            }
            Ok(_) => {}
            Err(_) => {
                let finding = Finding::ForeignKey { key: Name::new(key) };
                return Some(Diagnosis { finding, mended: false });
            }
        }
        None
    }

    /// Only a setting that is no number is looked at by the script.
    fn see_settings(&mut self, items: &[Bytes]) {
        for pair in items.chunks_exact(2) {
            let (lane, value) = (&pair[0], &pair[1]);
            let plain = value.iter().all(u8::is_ascii_digit) && !value.starts_with(b"0");
            if value.is_empty() || !plain {
                let seen = self.ring.get(lane).copied().unwrap_or_default();
                self.standings.push(Standing { lane: lane.clone(), seen });
            }
        }
    }

    /// Makes calls of what was collected, as long as there is so much of it.
    fn send_collected(&mut self, least: usize) {
        while self.standings.len() >= least {
            let at = self.standings.len().saturating_sub(BATCH);
            self.todo.push_front(Task::Lanes(self.standings.split_off(at)));
        }
        while self.seats.len() >= least {
            let at = self.seats.len().saturating_sub(BATCH);
            self.todo.push_front(Task::Jobs(self.seats.split_off(at)));
        }
    }
}

/// Puts tasks before all others.
trait PutFirst {
    fn put_first(&mut self, tasks: impl IntoIterator<Item = Task>);
}

impl PutFirst for VecDeque<Task> {
    fn put_first(&mut self, tasks: impl IntoIterator<Item = Task>) {
        tasks.into_iter().for_each(|task| self.push_front(task));
    }
}
