//! Marks that are unique in the world: who holds a job, who holds a node.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A random text of 128 bits. The standard library seeds its hash maps from the operating system's
/// own randomness, which is what makes two processes differ.
pub(crate) fn incarnation() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// Gives each claim a ticket of its own: `<incarnation>.<n>`.
#[derive(Debug)]
pub(crate) struct Tickets {
    incarnation: String,
    next: AtomicU64,
}

impl Tickets {
    pub(crate) fn fresh() -> Tickets {
        Tickets { incarnation: incarnation(), next: AtomicU64::new(1) }
    }

    pub(crate) fn next(&self) -> Arc<str> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        Arc::from(format!("{}.{n}", self.incarnation))
    }

    pub(crate) fn incarnation(&self) -> &str {
        &self.incarnation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_tickets_are_alike() {
        let makers: Vec<Tickets> = (0..100).map(|_| Tickets::fresh()).collect();
        let tickets: HashSet<_> =
            makers.iter().flat_map(|maker| [maker.next(), maker.next()]).collect();
        assert_eq!(tickets.len(), 200);
        let first = Tickets::fresh();
        assert_eq!(&*first.next(), format!("{}.1", first.incarnation()));
    }
}
