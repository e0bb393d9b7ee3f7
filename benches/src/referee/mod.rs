//! The referee: ours beside every rival, on one machine, in one run.
//!
//! A contender is a program of its own (`benches/README.md`). In each round every side plays once,
//! on a fresh server; what counts is the median of the rounds, and between sides the median of the
//! rounds' ratios. Predictions are printed before anything is measured.

mod args;
mod board;
mod chart;
mod derive;
mod ground;
mod limits;
mod line;
mod machine;
mod play;
mod proxy;
mod rounds;
mod row;
mod run;
mod save;
mod series;
mod side;
mod size;
mod table;
mod target;

/// Why something can't be measured.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

// The public interface is:
pub use args::Args;
pub use machine::Machine;
pub use run::run;
