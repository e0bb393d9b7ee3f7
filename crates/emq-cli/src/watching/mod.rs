//! What `emq top` and `emq serve` both read, each within a bound of its own.

mod numbers;
mod search;
pub(crate) mod text;

pub(crate) use self::numbers::{Numbers, Watched, is_of_the_server};
pub(crate) use self::search::{Search, Searcher};
