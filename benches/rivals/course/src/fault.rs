//! Why a row has no figures.

use std::fmt::Display;

/// Why a row has no figures.
#[derive(Debug)]
pub enum Fault {
    /// The rival has no such row, or doesn't run here at all.
    Absent(String),
    /// The rival came to grief in this row.
    Failed(String),
}

impl Fault {
    /// The rival came to grief: what happened.
    pub fn failed(what: impl Display) -> Fault {
        Fault::Failed(what.to_string())
    }
}

impl<E: std::error::Error> From<E> for Fault {
    fn from(error: E) -> Fault {
        let mut what = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let said = error.to_string();
            if !what.contains(&said) {
                what = format!("{what}: {said}");
            }
            cause = error.source();
        }
        Fault::Failed(what)
    }
}
