//! What a doctor may find in a queue.

use std::fmt;

use bytes::Bytes;
use emq_keys::{BrandedId, QueueFact};

/// A fault, and whether it was mended. Each was true at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnosis {
    /// What was found.
    pub finding: Finding,
    /// Whether it was mended in the same instant.
    pub mended: bool,
}

/// Bytes of the keyspace where an id or a name is expected, and anything may stand.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Bytes);

impl Name {
    /// A name of any bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Name {
        Name(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The id, when it is a well-formed one.
    #[must_use]
    pub fn id(&self) -> Option<BrandedId> {
        BrandedId::parse(&self.0).ok()
    }
}

impl From<BrandedId> for Name {
    fn from(id: BrandedId) -> Name {
        Name(Bytes::copy_from_slice(id.as_bytes()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A set of the queue where an id can be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The flat jobs.
    Pending,
    /// The leased ones.
    Active,
    /// The delayed and retrying ones.
    Schedule,
    /// The morgue.
    Dead,
    /// A lane.
    Lane(Name),
}

impl Place {
    fn parse(word: &Bytes) -> Option<Place> {
        Some(match &word[..] {
            b"pending" => Place::Pending,
            b"active" => Place::Active,
            b"schedule" => Place::Schedule,
            b"dead" => Place::Dead,
            other if other.starts_with(b"g:") => Place::Lane(Name(word.slice(2..))),
            _ => return None,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Pending => f.write_str("pending"),
            Place::Active => f.write_str("active"),
            Place::Schedule => f.write_str("schedule"),
            Place::Dead => f.write_str("dead"),
            Place::Lane(group) => write!(f, "lane {group}"),
        }
    }
}

/// Something that isn't as it must be. What mending does is said with each; what says nothing of it
/// is only reported.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finding {
    /// A job that no set knows. It is put where its state belongs: a scheduled one is due at once,
    /// the lease of an active one is over at once.
    RowWithoutSet {
        /// The job.
        id: Name,
        /// The row's state.
        state: String,
    },
    /// An id in sets, and no row. It is taken out of them.
    SetWithoutRow {
        /// The id.
        id: Name,
        /// Where it is.
        places: Vec<Place>,
    },
    /// A job in more sets than the one of its state. It is taken out of the others.
    InTwoSets {
        /// The job.
        id: Name,
        /// Where it is.
        places: Vec<Place>,
    },
    /// A job in other sets than the one of its state. It is put where its state belongs, and only
    /// there.
    StateDisagrees {
        /// The job.
        id: Name,
        /// The row's state.
        state: String,
        /// Where it is.
        places: Vec<Place>,
    },
    /// A score other than 0 where byte order is mint order. It becomes 0.
    OutOfOrder {
        /// The job.
        id: Name,
        /// Where it is.
        place: Place,
        /// The score.
        score: String,
    },
    /// A row that isn't a job's: what is wrong is `type` (of the key), `state`, `payload`,
    /// `attempts`, `group` or `fields` (too many). A state that is none becomes the one of the
    /// only set that the id is in; all else is only reported.
    RowBroken {
        /// The job.
        id: Name,
        /// What is wrong.
        what: String,
    },
    /// A field of a row that is empty. It is removed: absent means "none".
    EmptyField {
        /// The job.
        id: Name,
        /// The field.
        field: Name,
    },
    /// A held unique key whose holder doesn't exist, or has another. It is freed.
    UniqueWithoutOwner {
        /// The unique key.
        key: Name,
        /// The id that holds it.
        holder: Name,
    },
    /// A job whose unique key isn't held for it, nor by another job that has it. It is held again.
    UniqueNotHeld {
        /// The job.
        id: Name,
        /// Its unique key.
        key: Name,
    },
    /// A job whose unique key another job holds and has too. Only an operator knows which may stay.
    UniqueContested {
        /// The job.
        id: Name,
        /// Its unique key.
        key: Name,
    },
    /// A serviceable lane that isn't in the ring. It enters at the tail, and someone wakes.
    LaneMissingFromRing {
        /// The lane.
        lane: Name,
    },
    /// A lane in the ring that isn't serviceable. It leaves.
    LaneWronglyInRing {
        /// The lane.
        lane: Name,
    },
    /// A lane that is in the ring more than once. One place is left, at the tail.
    LaneTwiceInRing {
        /// The lane.
        lane: Name,
    },
    /// A lane whose key is of another type.
    LaneBroken {
        /// The lane.
        lane: Name,
    },
    /// A ceiling or weight that is no number from 1. It is removed when it counts as none.
    LaneSetting {
        /// The lane.
        lane: Name,
        /// [`QueueFact::Glimit`] or [`QueueFact::Gweight`].
        fact: QueueFact,
        /// What stands there.
        value: Name,
    },
    /// A lane whose count of leases out isn't the number of its leased jobs. It is set right, and
    /// the lane enters or leaves the ring as it must.
    LeaseCount {
        /// The lane.
        lane: Name,
        /// Its leased jobs.
        expected: u64,
        /// The field, as it stands; empty when there is none.
        found: Name,
    },
    /// Not a fault: more leases are out than can be counted in one instant (4,000), so those of
    /// lanes weren't compared. Look again when fewer are.
    LeasesUncounted {
        /// The leases out.
        leases: u64,
    },
    /// A fact of the queue that means nothing. A pause stays one; a rotation's state is removed; an
    /// unknown field is only reported.
    MetaField {
        /// The field.
        field: Name,
        /// What stands there.
        value: Name,
    },
    /// More wake tokens than the 64 that may stand. The rest is removed.
    WakeOver {
        /// The tokens.
        tokens: u64,
    },
    /// Work waits, and for as long as the doctor was patient nobody took any and no token stood. One
    /// is pushed.
    WakeMissing,
    /// A key under the queue's base that isn't in the grammar.
    ForeignKey {
        /// The key, whole.
        key: Name,
    },
    /// What a newer revision of the script found.
    Other {
        /// Its kind.
        kind: String,
        /// What it is about.
        subject: Name,
        /// More of it.
        detail: Name,
    },
}

impl Finding {
    /// Whether something is out of order.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        !matches!(self, Finding::LeasesUncounted { .. })
    }

    /// Reads what the script answers. What it can't make sense of is [`Finding::Other`].
    pub(crate) fn read(kind: &Bytes, subject: &Bytes, detail: &Bytes) -> Finding {
        known(kind, subject, detail).unwrap_or_else(|| Finding::Other {
            kind: String::from_utf8_lossy(kind).into_owned(),
            subject: Name(subject.clone()),
            detail: Name(detail.clone()),
        })
    }
}

fn known(kind: &Bytes, subject: &Bytes, detail: &Bytes) -> Option<Finding> {
    let about = || Name(subject.clone());
    let (id, lane) = (about(), about());
    let words = || detail.split(|byte| *byte == b' ').map(|word| detail.slice_ref(word));
    let places = |skip: usize| {
        words().skip(skip).map(|word| Place::parse(&word)).collect::<Option<Vec<_>>>()
    };
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    Some(match &kind[..] {
        b"row_without_set" => Finding::RowWithoutSet { id, state: text(detail) },
        b"set_without_row" => Finding::SetWithoutRow { id, places: places(0)? },
        b"two_sets" => Finding::InTwoSets { id, places: places(0)? },
        b"state_disagrees" => {
            Finding::StateDisagrees { id, state: text(&words().next()?), places: places(1)? }
        }
        b"score" => {
            let (score, place) = halves(detail)?;
            Finding::OutOfOrder { id, place: Place::parse(&place)?, score: text(&score) }
        }
        b"row_broken" => Finding::RowBroken { id, what: text(detail) },
        b"empty_field" => Finding::EmptyField { id, field: Name(detail.clone()) },
        b"unique_without_owner" => {
            Finding::UniqueWithoutOwner { key: about(), holder: Name(detail.clone()) }
        }
        b"unique_not_held" => Finding::UniqueNotHeld { id, key: Name(detail.clone()) },
        b"unique_contested" => Finding::UniqueContested { id, key: Name(detail.clone()) },
        b"lane_missing" => Finding::LaneMissingFromRing { lane },
        b"lane_stray" => Finding::LaneWronglyInRing { lane },
        b"lane_twice" => Finding::LaneTwiceInRing { lane },
        b"lane_broken" => Finding::LaneBroken { lane },
        b"lane_fact" => {
            let (fact, value) = halves(detail)?;
            Finding::LaneSetting { lane, fact: QueueFact::of_type(&fact)?, value: Name(value) }
        }
        b"lease_count" => {
            let (expected, found) = halves(detail)?;
            Finding::LeaseCount { lane, expected: number(&expected)?, found: Name(found) }
        }
        b"leases_uncounted" => Finding::LeasesUncounted { leases: number(detail)? },
        b"meta_field" => Finding::MetaField { field: about(), value: Name(detail.clone()) },
        b"wake_over" => Finding::WakeOver { tokens: number(detail)? },
        b"wake_missing" => Finding::WakeMissing,
        _ => return None,
    })
}

/// What stands before and after the first space.
fn halves(detail: &Bytes) -> Option<(Bytes, Bytes)> {
    let at = detail.iter().position(|byte| *byte == b' ')?;
    Some((detail.slice(..at), detail.slice(at + 1..)))
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RowWithoutSet { id, state } => write!(f, "job {id} is {state} and in no set"),
            Self::SetWithoutRow { id, places } => {
                write!(f, "id {id} has no row and is in {}", Listed(places))
            }
            Self::InTwoSets { id, places } => write!(f, "job {id} is in {}", Listed(places)),
            Self::StateDisagrees { id, state, places } => {
                write!(f, "job {id} is {state} and in {}", Listed(places))
            }
            Self::OutOfOrder { id, place, score } => {
                write!(f, "job {id} has the score {score} in {place}")
            }
            Self::RowBroken { id, what } => write!(f, "the row of job {id} has a wrong {what}"),
            Self::EmptyField { id, field } => write!(f, "job {id} has an empty {field}"),
            Self::UniqueWithoutOwner { key, holder } => {
                write!(f, "unique key {key} is held for {holder}, which doesn't have it")
            }
            Self::UniqueNotHeld { id, key } => {
                write!(f, "unique key {key} of job {id} isn't held")
            }
            Self::UniqueContested { id, key } => {
                write!(f, "unique key {key} of job {id} is another job's too")
            }
            Self::LaneMissingFromRing { lane } => write!(f, "lane {lane} isn't in the ring"),
            Self::LaneWronglyInRing { lane } => {
                write!(f, "lane {lane} is in the ring and can't be served")
            }
            Self::LaneTwiceInRing { lane } => write!(f, "lane {lane} is in the ring twice"),
            Self::LaneBroken { lane } => write!(f, "lane {lane} is no sorted set"),
            Self::LaneSetting { lane, fact, value } => {
                write!(f, "lane {lane} has {value} for its {fact}")
            }
            Self::LeaseCount { lane, expected, found } => {
                write!(f, "lane {lane} has {expected} leases out and counts {found:?}")
            }
            Self::LeasesUncounted { leases } => {
                write!(f, "{leases} leases are out, too many to count in one instant")
            }
            Self::MetaField { field, value } => write!(f, "the queue's {field} is {value}"),
            Self::WakeOver { tokens } => write!(f, "{tokens} wake tokens stand"),
            Self::WakeMissing => f.write_str("work waits and nobody was woken"),
            Self::ForeignKey { key } => write!(f, "{key} is no key of this bus"),
            Self::Other { kind, subject, detail } => write!(f, "{kind}: {subject} {detail}"),
        }
    }
}

struct Listed<'a>(&'a [Place]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, place) in self.0.iter().enumerate() {
            let joint = if at == 0 { "" } else { " and " };
            write!(f, "{joint}{place}")?;
        }
        Ok(())
    }
}
