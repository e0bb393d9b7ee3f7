//! The model test's parts. To add a verb: a variant of [`step::Step`] with its line in
//! [`generate`], its call in [`perform`], and its function in [`world`]. Everything that the call
//! leaves in the queue is compared by itself.

pub(crate) mod answer;
pub(crate) mod corruptions;
pub(crate) mod coverage;
pub(crate) mod generate;
pub(crate) mod laws;
pub(crate) mod malformed;
pub(crate) mod mutants;
pub(crate) mod perform;
pub(crate) mod run;
pub(crate) mod shrink;
pub(crate) mod snapshot;
pub(crate) mod step;
pub(crate) mod world;
