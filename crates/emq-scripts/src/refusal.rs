//! Refusals and the other ways in which a call can fail.

use std::fmt;
use std::sync::Arc;

use emq_wire::{ServerError, WireError};

use crate::fence::{FenceError, fence_error};
use crate::name::ScriptName;

/// Why a script refused: the first word of its error. The registry is closed per wire version; a
/// newer script's class arrives as [`RefusalClass::Other`], word for word.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalClass {
    /// `EMQARG`: a malformed argument.
    Arg,
    /// `EMQLIMIT`: a batch over its bound.
    Limit,
    /// `EMQKIND`: the id is well formed, but not of a kind that the queue admits.
    Kind,
    /// `EMQSTALE`: not the current token or holder, or no live lease where one is needed.
    Stale,
    /// `EMQSTATE`: the job or the queue is not in the state that the verb needs.
    State,
    /// A class that this version doesn't know.
    Other(Arc<str>),
}

/// A row of [`REFUSALS`].
#[derive(Clone, Copy, Debug)]
pub struct RefusalRow {
    /// The variant.
    pub class: &'static RefusalClass,
    /// The word on the wire.
    pub word: &'static str,
    /// What happened.
    pub meaning: &'static str,
    /// What to do next.
    pub advice: &'static str,
}

/// The one table of refusals.
pub const REFUSALS: &[RefusalRow] = &[
    RefusalRow {
        class: &RefusalClass::Arg,
        word: "EMQARG",
        meaning: "an argument is malformed or out of range",
        advice: "correct the argument; nothing was written",
    },
    RefusalRow {
        class: &RefusalClass::Limit,
        word: "EMQLIMIT",
        meaning: "the batch is over its bound",
        advice: "cut it into smaller ones; nothing was written",
    },
    RefusalRow {
        class: &RefusalClass::Kind,
        word: "EMQKIND",
        meaning: "the id doesn't name a job",
        advice: "mint it in the namespace JOB",
    },
    RefusalRow {
        class: &RefusalClass::Stale,
        word: "EMQSTALE",
        meaning: "the caller doesn't hold this job's lease (any more)",
        advice: "drop the work; the job was decided elsewhere or will be served again",
    },
    RefusalRow {
        class: &RefusalClass::State,
        word: "EMQSTATE",
        meaning: "the job or the queue is not in the state that this verb needs",
        advice: "read its state and choose the verb for it",
    },
];

impl RefusalClass {
    /// The class of an error's first word; `None` for a word that isn't one of the scripts'.
    ///
    /// ```
    /// use emq_scripts::RefusalClass;
    /// assert_eq!(RefusalClass::of_word("EMQSTALE"), Some(RefusalClass::Stale));
    /// assert_eq!(RefusalClass::of_word("EMQNEW").unwrap().word(), "EMQNEW");
    /// assert_eq!(RefusalClass::of_word("ERR"), None);
    /// ```
    #[must_use]
    pub fn of_word(word: &str) -> Option<RefusalClass> {
        if !word.starts_with("EMQ") {
            return None;
        }
        let known = REFUSALS.iter().find(|row| row.word == word).map(|row| row.class.clone());
        Some(known.unwrap_or_else(|| RefusalClass::Other(word.into())))
    }

    /// The word on the wire.
    #[must_use]
    pub fn word(&self) -> &str {
        match self {
            Self::Other(word) => word,
            known => known.row().map_or("", |row| row.word),
        }
    }

    fn row(&self) -> Option<&'static RefusalRow> {
        REFUSALS.iter().find(|row| row.class == self)
    }
}

/// What the class says and what to do next.
impl fmt::Display for RefusalClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some(row) => write!(f, "{}; {}", row.meaning, row.advice),
            None => {
                write!(f, "{}, a class unknown to this version; upgrade to learn it", self.word())
            }
        }
    }
}

/// Why a call has no reply of its script's own.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The script refused. Unless its class says otherwise, nothing was written.
    #[error("{script} was refused: {class} ({} {message})", class.word())]
    Refused {
        /// Why, by class.
        class: RefusalClass,
        /// The script's own words after the class.
        message: String,
        /// Which script.
        script: ScriptName,
    },

    /// The server is full and evicts nothing. Nothing was written.
    #[error("the server is out of memory and refused {script}; let workers drain it, then retry")]
    OutOfMemory {
        /// Which script.
        script: ScriptName,
    },

    /// The server refused to run the script.
    #[error("the server refused to run {script}; see its own words below")]
    Server {
        /// Which script.
        script: ScriptName,
        /// The server's words.
        #[source]
        source: ServerError,
    },

    /// The connection failed, or the fence stands between; see [`CallError::fence`].
    #[error("the call did not get through")]
    Wire(#[from] WireError),

    /// A reply that the script can't have answered.
    #[error("{script} answered {found}, which it never does; is another bundle on this server?")]
    Shape {
        /// Which script.
        script: ScriptName,
        /// What came, without its content.
        found: String,
    },
}

impl CallError {
    pub(crate) fn from_server(script: ScriptName, source: ServerError) -> CallError {
        if let Some(class) = RefusalClass::of_word(source.class()) {
            let message = source.message().into_owned();
            return CallError::Refused { class, message, script };
        }
        if source.is("OOM") {
            return CallError::OutOfMemory { script };
        }
        CallError::Server { script, source }
    }

    /// The class, when a script refused.
    #[must_use]
    pub fn refusal(&self) -> Option<&RefusalClass> {
        match self {
            Self::Refused { class, .. } => Some(class),
            _ => None,
        }
    }

    /// Whether the caller doesn't hold the job's lease (any more).
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.refusal() == Some(&RefusalClass::Stale)
    }

    /// Why the fence refused this server, when it did.
    #[must_use]
    pub fn fence(&self) -> Option<&FenceError> {
        match self {
            Self::Wire(error) => fence_error(error),
            _ => None,
        }
    }

    /// Whether the same call may succeed later without anything being repaired by hand.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::OutOfMemory { .. } => true,
            Self::Server { source, .. } => is_passing(source),
            Self::Wire(error) => error.is_retryable(),
            Self::Refused { .. } | Self::Shape { .. } => false,
        }
    }
}

/// Whether a server's error speaks of a state that passes by itself.
pub(crate) fn is_passing(error: &ServerError) -> bool {
    matches!(
        error.class(),
        "LOADING"
            | "BUSY"
            | "READONLY"
            | "MASTERDOWN"
            | "MISCONF"
            | "NOREPLICAS"
            | "TRYAGAIN"
            | "CLUSTERDOWN"
            | "OOM"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_line(line: &'static str) -> CallError {
        let error = ServerError::from_line(bytes::Bytes::from_static(line.as_bytes()));
        CallError::from_server(ScriptName::Retry, error)
    }

    #[test]
    fn each_row_of_the_table_is_found_by_its_word_and_by_its_class() {
        for row in REFUSALS {
            assert_eq!(RefusalClass::of_word(row.word).as_ref(), Some(row.class));
            assert_eq!(row.class.word(), row.word);
            assert!(row.word.starts_with("EMQ"));
        }
    }

    #[test]
    fn a_refusal_keeps_its_class_its_words_and_its_script() {
        let error = from_line("EMQSTALE not the holder");
        assert!(error.is_stale() && !error.is_retryable());
        let CallError::Refused { class, message, script } = error else { panic!("{error:?}") };
        assert_eq!(class, RefusalClass::Stale);
        assert_eq!((message.as_str(), script), ("not the holder", ScriptName::Retry));
    }

    #[test]
    fn an_unknown_class_survives_intact() {
        let error = from_line("EMQFUTURE something new");
        assert_eq!(error.refusal().map(RefusalClass::word), Some("EMQFUTURE"));
        assert!(error.to_string().contains("EMQFUTURE something new"));
    }

    #[test]
    fn the_servers_own_errors_are_told_apart() {
        let oom = from_line("OOM command not allowed when used memory > 'maxmemory'. script: f");
        assert!(matches!(oom, CallError::OutOfMemory { .. }) && oom.is_retryable());
        for line in ["MISCONF can't save", "READONLY a replica", "LOADING wait", "BUSY a script"] {
            let error = from_line(line);
            assert!(matches!(error, CallError::Server { .. }) && error.is_retryable(), "{line}");
        }
        for line in ["NOPERM no", "ERR what", "WRONGTYPE no", "", "EMQ"] {
            assert!(!from_line(line).is_retryable(), "{line}");
        }
    }
}
