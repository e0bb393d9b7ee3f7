//! What a command writes.

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, and not where `NO_COLOR` is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
