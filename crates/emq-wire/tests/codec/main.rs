//! The decoder against every way in which bytes can arrive, including the hostile ones.

mod feed;
mod frames;
mod hostile;
mod oracle;
mod split;
mod tree;
