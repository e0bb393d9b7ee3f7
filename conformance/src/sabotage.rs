//! Clients that are wrong on purpose, each in a way that a port could be: the contracts must find
//! them, by name.

/// What the broken client gets wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// It settles with the token of its last claim, whatever job that was for.
    Token,
    /// It keeps an id's digits and writes `JOB` before them, so that no gate sees another kind.
    Kind,
    /// It misspells the ring's key when it admits to a lane.
    Ring,
    /// It misspells the wake key when it admits.
    Wake,
}

impl Sabotage {
    /// Each of them by the word that the drivers take.
    pub const ALL: [(&'static str, Self); 4] =
        [("token", Self::Token), ("kind", Self::Kind), ("ring", Self::Ring), ("wake", Self::Wake)];

    /// By its word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, sabotage)| *sabotage)
    }
}

const ADMISSIONS: [&str; 4] = ["enqueue", "lane_enqueue", "schedule", "enqueue_many"];
const SETTLES: [&str; 5] = ["complete", "retry", "release", "extend", "checkpoint"];

/// Spoils a call as the broken client would. `key_parts` names what stands in `keys`.
pub(crate) fn spoil(
    sabotage: Sabotage,
    script: &str,
    key_parts: &[String],
    keys: &mut [Vec<u8>],
    args: &mut [Vec<u8>],
    last_token: &[u8],
) {
    let admits = ADMISSIONS.contains(&script);
    match sabotage {
        Sabotage::Token if SETTLES.contains(&script) && args.len() > 2 => {
            args[2] = last_token.to_vec();
        }
        Sabotage::Kind if admits && args.len() > 1 && args[1].len() == 14 => {
            args[1][..3].copy_from_slice(b"JOB");
        }
        Sabotage::Ring if script == "lane_enqueue" => misspell("ring", key_parts, keys),
        Sabotage::Wake if admits => misspell("wake", key_parts, keys),
        _ => {}
    }
}

fn misspell(part: &str, key_parts: &[String], keys: &mut [Vec<u8>]) {
    for (name, key) in key_parts.iter().zip(keys) {
        if name == part {
            key.push(b's');
        }
    }
}
