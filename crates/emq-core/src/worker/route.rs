//! Which handler works a job: by its kind, or the one for all the rest.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use super::handler::{Fate, Handler, JobError, with_causes};
use super::job::{Context, Job};
use crate::payload::Codec;

/// How a handler failed, unless it panicked or was dropped. The words of its error are taken in
/// its own task, since they may panic too.
pub(super) enum Trouble {
    Failed { fate: Fate, words: String },
    Undecodable { words: String },
}

impl From<JobError> for Trouble {
    fn from(error: JobError) -> Trouble {
        Trouble::Failed { fate: error.fate, words: error.words() }
    }
}

pub(super) type Working = Pin<Box<dyn Future<Output = Result<(), Trouble>> + Send>>;

/// A handler with its codec, without their types.
pub(super) trait Work: Send + Sync {
    fn begin(&self, payload: Bytes, context: Arc<Context>) -> Working;
}

/// A handler `H` of values `T` in the codec `C`.
struct Typed<T, C, H> {
    handler: Arc<H>,
    payload: PhantomData<fn() -> (T, C)>,
}

impl<T: Send + 'static, C: Codec<T>, H: Handler<T>> Work for Typed<T, C, H> {
    fn begin(&self, payload: Bytes, context: Arc<Context>) -> Working {
        let handler = Arc::clone(&self.handler);
        // Decoding runs in here too: a codec that panics is the job's failure, not the worker's.
        Box::pin(async move {
            let value = C::decode(&payload)
                .map_err(|error| Trouble::Undecodable { words: with_causes(&error) })?;
            drop(payload);
            Ok(handler.run(Job::new(value, context)).await?)
        })
    }
}

/// The handlers of a worker.
#[derive(Default)]
pub(super) struct Routes {
    by_kind: HashMap<Bytes, Box<dyn Work>>,
    rest: Option<Box<dyn Work>>,
}

impl Routes {
    /// A handler for the jobs of a kind; it takes the place of an earlier one.
    pub(super) fn add<T, C, H>(&mut self, kind: String, handler: H)
    where
        T: Send + 'static,
        C: Codec<T>,
        H: Handler<T>,
    {
        self.by_kind.insert(Bytes::from(kind), typed::<T, C, H>(handler));
    }

    /// The handler of the jobs that no other is for.
    pub(super) fn set_rest<T, C, H>(&mut self, handler: H)
    where
        T: Send + 'static,
        C: Codec<T>,
        H: Handler<T>,
    {
        self.rest = Some(typed::<T, C, H>(handler));
    }

    /// The handler of a job, when there is one.
    pub(super) fn of(&self, kind: Option<&Bytes>) -> Option<&dyn Work> {
        let own = kind.filter(|_| !self.by_kind.is_empty()).and_then(|kind| self.by_kind.get(kind));
        own.or(self.rest.as_ref()).map(|work| &**work)
    }
}

fn typed<T, C, H>(handler: H) -> Box<dyn Work>
where
    T: Send + 'static,
    C: Codec<T>,
    H: Handler<T>,
{
    Box::new(Typed::<T, C, H> { handler: Arc::new(handler), payload: PhantomData })
}
