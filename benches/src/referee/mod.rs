//! The referee: ours beside every rival, on one machine, in one run.

pub mod proxy;
