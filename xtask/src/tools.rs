use crate::Outcome;
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Install it
    Install,
}
pub(crate) fn run(_command: &Command) -> Outcome {
    Err("being written".into())
}
