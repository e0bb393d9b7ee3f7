//! Building the keys of one queue.

use std::fmt;
use std::sync::Arc;

use crate::error::IdError;
use crate::id::BrandedId;
use crate::queue_name::QueueName;
use crate::slot::slot;

/// A fact of a queue that has exactly one key, `emq:{<queue>}:<type>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueFact {
    /// Flat jobs, every score 0.
    Pending,
    /// Every leased job by the deadline of its lease.
    Active,
    /// Delayed and retrying jobs by the time they run at.
    Schedule,
    /// Dead letters: the morgue.
    Dead,
    /// The rota of serviceable lanes.
    Ring,
    /// Lanes that an operator parked.
    Paused,
    /// Ceilings by lane.
    Glimit,
    /// Leases out by lane.
    Gactive,
    /// Wake tokens.
    Wake,
    /// Weights by lane.
    Gweight,
    /// Unique keys and the ids that hold them.
    Unique,
    /// Facts of the whole queue.
    Meta,
    /// What recurs: schedules and their next ticks.
    Timetable,
}

impl QueueFact {
    /// Every such fact, in the order of declaration.
    pub const ALL: [QueueFact; 13] = [
        QueueFact::Pending,
        QueueFact::Active,
        QueueFact::Schedule,
        QueueFact::Dead,
        QueueFact::Ring,
        QueueFact::Paused,
        QueueFact::Glimit,
        QueueFact::Gactive,
        QueueFact::Wake,
        QueueFact::Gweight,
        QueueFact::Unique,
        QueueFact::Meta,
        QueueFact::Timetable,
    ];

    /// The `<type>` in the key.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            QueueFact::Pending => "pending",
            QueueFact::Active => "active",
            QueueFact::Schedule => "schedule",
            QueueFact::Dead => "dead",
            QueueFact::Ring => "ring",
            QueueFact::Paused => "paused",
            QueueFact::Glimit => "glimit",
            QueueFact::Gactive => "gactive",
            QueueFact::Wake => "wake",
            QueueFact::Gweight => "gweight",
            QueueFact::Unique => "unique",
            QueueFact::Meta => "meta",
            QueueFact::Timetable => "timetable",
        }
    }

    /// The fact of a `<type>`, when there is one.
    #[must_use]
    pub fn of_type(name: &[u8]) -> Option<QueueFact> {
        QueueFact::ALL.into_iter().find(|fact| fact.as_str().as_bytes() == name)
    }
}

impl fmt::Display for QueueFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Every key of one queue. The fixed ones are built once, here; cheap to clone.
///
/// ```
/// use emq_keys::{BrandedId, QueueKeys, QueueName};
/// let keys = QueueKeys::new(QueueName::new("orders")?);
/// let id: BrandedId = "ORD0NgWEfAEJfs".parse()?;
/// assert_eq!(keys.pending(), "emq:{orders}:pending");
/// assert_eq!(keys.job(&id), "emq:{orders}:job:ORD0NgWEfAEJfs");
/// assert_eq!(keys.lane(&id), "emq:{orders}:g:ORD0NgWEfAEJfs:pending");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct QueueKeys(Arc<Built>);

struct Built {
    queue: QueueName,
    base: Box<str>,
    /// One for each fact of [`QueueFact::ALL`], in its order.
    fixed: [Box<str>; QueueFact::ALL.len()],
    slot: u16,
}

impl QueueKeys {
    /// Builds the keys of a queue.
    #[must_use]
    pub fn new(queue: QueueName) -> QueueKeys {
        let base = base(&queue).into_boxed_str();
        let fixed = QueueFact::ALL.map(|fact| concat(&[&base, fact.as_str()]).into_boxed_str());
        let slot = slot(base.as_bytes());
        QueueKeys(Arc::new(Built { queue, base, fixed, slot }))
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.0.queue
    }

    /// `emq:{q}:`, the head of all its keys. Not a key itself.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.0.base
    }

    /// The slot that all its keys share.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.0.slot
    }

    /// The key of a fact.
    #[must_use]
    pub fn fact(&self, fact: QueueFact) -> &str {
        &self.0.fixed[fact as usize]
    }

    /// `emq:{q}:pending`
    #[must_use]
    pub fn pending(&self) -> &str {
        self.fact(QueueFact::Pending)
    }

    /// `emq:{q}:active`
    #[must_use]
    pub fn active(&self) -> &str {
        self.fact(QueueFact::Active)
    }

    /// `emq:{q}:schedule`
    #[must_use]
    pub fn schedule(&self) -> &str {
        self.fact(QueueFact::Schedule)
    }

    /// `emq:{q}:dead`
    #[must_use]
    pub fn dead(&self) -> &str {
        self.fact(QueueFact::Dead)
    }

    /// `emq:{q}:ring`
    #[must_use]
    pub fn ring(&self) -> &str {
        self.fact(QueueFact::Ring)
    }

    /// `emq:{q}:paused`
    #[must_use]
    pub fn paused(&self) -> &str {
        self.fact(QueueFact::Paused)
    }

    /// `emq:{q}:glimit`
    #[must_use]
    pub fn glimit(&self) -> &str {
        self.fact(QueueFact::Glimit)
    }

    /// `emq:{q}:gactive`
    #[must_use]
    pub fn gactive(&self) -> &str {
        self.fact(QueueFact::Gactive)
    }

    /// `emq:{q}:wake`
    #[must_use]
    pub fn wake(&self) -> &str {
        self.fact(QueueFact::Wake)
    }

    /// `emq:{q}:gweight`
    #[must_use]
    pub fn gweight(&self) -> &str {
        self.fact(QueueFact::Gweight)
    }

    /// `emq:{q}:unique`
    #[must_use]
    pub fn unique(&self) -> &str {
        self.fact(QueueFact::Unique)
    }

    /// `emq:{q}:meta`
    #[must_use]
    pub fn meta(&self) -> &str {
        self.fact(QueueFact::Meta)
    }

    /// `emq:{q}:timetable`
    #[must_use]
    pub fn timetable(&self) -> &str {
        self.fact(QueueFact::Timetable)
    }

    /// `emq:{q}:job:<id>`, the row of a job.
    #[must_use]
    pub fn job(&self, id: &BrandedId) -> String {
        concat(&[self.base(), "job:", id.as_str()])
    }

    /// The row of a job whose id is still raw bytes: the gates stand before the key.
    ///
    /// # Errors
    /// [`IdError`] when the bytes are not an id.
    pub fn job_from_bytes(&self, id: &[u8]) -> Result<String, IdError> {
        BrandedId::parse(id).map(|id| self.job(&id))
    }

    /// `emq:{q}:g:<id>:pending`, the lane of a group.
    #[must_use]
    pub fn lane(&self, group: &BrandedId) -> String {
        concat(&[self.base(), "g:", group.as_str(), ":pending"])
    }

    /// The lane of a group whose id is still raw bytes: the gates stand before the key.
    ///
    /// # Errors
    /// [`IdError`] when the bytes are not an id.
    pub fn lane_from_bytes(&self, group: &[u8]) -> Result<String, IdError> {
        BrandedId::parse(group).map(|group| self.lane(&group))
    }
}

impl fmt::Debug for QueueKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueueKeys").field(self.queue()).finish()
    }
}

impl From<QueueName> for QueueKeys {
    fn from(queue: QueueName) -> QueueKeys {
        QueueKeys::new(queue)
    }
}

fn base(queue: &QueueName) -> String {
    concat(&["emq:{", queue.as_str(), "}:"])
}

/// One allocation of the right size.
fn concat(parts: &[&str]) -> String {
    parts.concat()
}
