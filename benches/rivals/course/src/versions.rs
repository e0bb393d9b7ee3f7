//! Which versions were measured.

/// What the lock file of the rivals has; the rivals pin theirs exactly, so it can't drift.
const LOCKED: &str = include_str!("../../Cargo.lock");

/// The locked version of a package.
///
/// # Panics
/// When no rival depends on it.
#[must_use]
pub fn version(package: &str) -> &'static str {
    let entry = format!("name = \"{package}\"\nversion = \"");
    let (_, rest) = LOCKED.split_once(&entry).expect("a package that a rival depends on");
    rest.split_once('"').expect("a lock file").0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rivals_are_at_the_versions_that_are_pinned() {
        let pinned = include_str!("../../Cargo.toml");
        for package in ["apalis-redis", "bullmq-official", "chasquimq", "graphile_worker"] {
            assert!(pinned.contains(&format!("{package} = \"={}\"", version(package))));
        }
    }
}
