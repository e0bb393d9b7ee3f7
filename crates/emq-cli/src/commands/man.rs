//! `emq man`: the manual, as `man` reads it.

use std::fs;
use std::path::PathBuf;

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::exit::{Failure, TABLE};
use crate::{cli, output};

/// What `emq man` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write emq.1 and a page for each command into this directory, instead of printing emq.1
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("can't write the manual: {error}"));
    // The exit codes have a section of their own here.
    let command = cli::command().after_long_help(None::<&str>);
    let page = page(&command).map_err(failed)?;
    let Some(dir) = args.dir else { return output::write(&page) };
    fs::create_dir_all(&dir).map_err(failed)?;
    clap_mangen::generate_to(command, &dir).map_err(failed)?;
    fs::write(dir.join("emq.1"), page).map_err(failed)
}

/// The page of the command as a whole, with its exit codes.
fn page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    let mut codes = Roff::new();
    codes.control("SH", ["EXIT STATUS"]);
    for (code, word, meaning) in TABLE {
        codes.control("TP", []);
        codes.text([bold(code.to_string())]);
        codes.text([roman(format!("{word}: {meaning}"))]);
    }
    codes.to_writer(&mut page)?;
    Ok(page)
}
