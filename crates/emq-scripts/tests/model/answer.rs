//! What a step answers, by the model and by the server.

use std::time::Duration;

use emq_scripts::{
    Admitted, CallError, Cancelled, Claimed, Completed, ExtendVerdict, Extended, Reaped,
    Reassigned, RefusalClass, Removed, Requeued, Retried, SettleVerdict, Switched, TurnJob, Turned,
    Verdict,
};

/// An answer to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Admitted(Admitted),
    Verdicts(Vec<Verdict>),
    /// With the checkpoint and the payload, which `Claimed` doesn't print.
    Claimed(Option<Claimed>),
    Completed(Completed),
    Retried(Retried),
    Released,
    Extended(Extended),
    Count(u64),
    Reaped(Reaped),
    Cancelled(Cancelled),
    Requeued(Requeued),
    Removed(Removed),
    Switched(Switched),
    Reassigned(Reassigned),
    Nudged,
    Turned(Beaten),
    Refused(RefusalClass),
    /// The test's own doing: nothing was asked.
    Planted,
    /// What no script may answer, in words.
    Broken(String),
}

/// What a turn answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beaten {
    pub(crate) verdicts: Vec<SettleVerdict>,
    pub(crate) extensions: Vec<ExtendVerdict>,
    pub(crate) jobs: Vec<TurnJob>,
    pub(crate) next_ms: Option<u64>,
    pub(crate) reaped: Reaped,
    pub(crate) promoted: u64,
}

impl From<Turned> for Beaten {
    fn from(turned: Turned) -> Beaten {
        let Turned { verdicts, extensions, jobs, next, returned, buried, promoted } = turned;
        let whole = |next: Duration| u64::try_from(next.as_millis()).unwrap_or(u64::MAX);
        let (next_ms, reaped) = (next.map(whole), Reaped { returned, buried });
        Beaten { verdicts, extensions, jobs, next_ms, reaped, promoted }
    }
}

impl Answer {
    /// The answer of a call, or its refusal.
    pub(crate) fn of<T>(outcome: Result<T, CallError>, answer: impl FnOnce(T) -> Answer) -> Answer {
        match outcome {
            Ok(reply) => answer(reply),
            Err(CallError::Refused { class, .. }) => Answer::Refused(class),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                Answer::Broken(format!("{error}: {}", cause.unwrap_or_default()))
            }
        }
    }

    /// What kind of answer it is, for the table of what was seen.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Admitted(Admitted::Held(_)) => "Held".to_owned(),
            Self::Admitted(other) => format!("{other:?}"),
            Self::Verdicts(verdicts) => match verdicts.len() {
                0 => "none".to_owned(),
                1 => "one".to_owned(),
                2..=64 => "several".to_owned(),
                _ => "burst".to_owned(),
            },
            Self::Claimed(None) => "empty".to_owned(),
            Self::Claimed(Some(job)) if job.checkpoint.is_some() => "job+checkpoint".to_owned(),
            Self::Claimed(Some(_)) => "job".to_owned(),
            Self::Completed(other) => format!("{other:?}"),
            Self::Retried(other) => format!("{other:?}"),
            Self::Extended(other) => format!("{other:?}"),
            Self::Count(0) => "0".to_owned(),
            Self::Count(_) => "some".to_owned(),
            Self::Reaped(reaped) => {
                let some = |count, word| if count > 0 { word } else { "" };
                format!("{}{}", some(reaped.returned, "returned "), some(reaped.buried, "buried"))
            }
            Self::Cancelled(other) => format!("{other:?}"),
            Self::Requeued(other) => format!("{other:?}"),
            Self::Removed(other) => format!("{other:?}"),
            Self::Switched(other) => format!("{other:?}"),
            Self::Reassigned(other) => format!("{other:?}"),
            Self::Turned(turned) => {
                let some = |empty: bool, word| if empty { "" } else { word };
                let (verdicts, jobs) = (&turned.verdicts, &turned.jobs);
                let settles = some(verdicts.is_empty(), "settles ");
                let extends = some(turned.extensions.is_empty(), "extends ");
                let flat = some(jobs.iter().all(|job| job.group.is_some()), "flat ");
                let lanes = some(jobs.iter().all(|job| job.group.is_none()), "lanes");
                format!("{settles}{extends}{flat}{lanes}")
            }
            Self::Refused(class) => class.word().to_owned(),
            Self::Released | Self::Nudged | Self::Planted => "done".to_owned(),
            Self::Broken(_) => "broken".to_owned(),
        }
    }
}
