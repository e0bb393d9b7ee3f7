//! The referee's command: `cargo xtask referee` builds all sides and calls it.

fn main() {}
