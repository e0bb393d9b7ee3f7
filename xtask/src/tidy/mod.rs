//! `cargo xtask tidy`: what is generated is what is committed, and what a header says is true.
//!
//! * `lua/*.lua` is `lua/src/*.lua` with its parts expanded;
//! * each script's header agrees with its body and with the typed call in emq-scripts;
//! * `lua/manifest.toml` lists each script with its true SHA-1;
//! * files and lines keep to their budgets (warnings only).

mod body;
mod budget;
mod bundle;
mod expand;
pub(crate) mod header;
mod manifest;
mod script;
#[cfg(test)]
mod tests;

use crate::{Outcome, sh};
use bundle::{Bundle, Expected};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write what differs: the expanded scripts and the manifest
    #[arg(long, conflicts_with = "check")]
    fix: bool,
    /// Only look (the default)
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let root = sh::root();
    let dir = root.join("lua");
    let mut bundle = Bundle::read(&dir)?;
    let expected = Expected::all();
    if args.fix {
        for file in bundle.fix(&expected) {
            println!("wrote lua/{file}");
        }
        bundle.write(&dir)?;
    }
    for warning in budget::warnings(&root)? {
        println!("warning: {warning}");
    }
    let faults = bundle.faults(&expected);
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => {
            println!("tidy: {} scripts, headers, digests and expansions agree", expected.len());
            Ok(())
        }
        1 => Err("1 fault; what is generated is mended by `cargo xtask tidy --fix`".into()),
        n => {
            Err(format!("{n} faults; what is generated is mended by `cargo xtask tidy --fix`")
                .into())
        }
    }
}
