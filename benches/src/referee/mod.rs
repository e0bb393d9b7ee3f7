//! The referee: ours beside every rival, on one machine, in one run.

pub mod line;
pub mod proxy;
pub mod row;
pub mod series;
pub mod side;
pub mod size;
