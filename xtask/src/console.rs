//! `cargo xtask console`: the console of `emq serve` in a real browser, and pictures of its pages.

use std::path::PathBuf;

use crate::{Failure, Outcome, sh};

/// Names that a browser without a window goes by.
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "chrome-headless-shell", "google-chrome"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the pictures go
    #[arg(long, value_name = "FOLDER", default_value = "target/console")]
    pictures: PathBuf,
    /// Only get a browser, and print its path
    #[arg(long)]
    install: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let browser = browser()?;
    if args.install {
        println!("{}", browser.display());
        return Ok(());
    }
    let pictures = sh::root().join(&args.pictures);
    let test = ["test", "-p", "emq-cli", "--test", "browser", "--", "--nocapture"];
    sh::run(
        sh::cargo().args(test).env("EMQ_BROWSER", &browser).env("EMQ_TEST_SCREENS", &pictures),
    )?;
    println!("pictures: {}", pictures.display());
    Ok(())
}

/// The machine's browser, which Debian's packages bring where there is none.
fn browser() -> Result<PathBuf, Failure> {
    let found = || BROWSERS.iter().find_map(|name| sh::find(name));
    if let Some(browser) = found() {
        return Ok(browser);
    }
    if !sh::has("apt-get") || !sh::is_root() {
        let what = "no browser here: install chromium with the machine's packages";
        return Err(format!("{what}, or run this task as root on Debian").into());
    }
    sh::run(sh::apt().arg("update"))?;
    let packages = ["chromium", "fonts-dejavu-core"];
    sh::run(sh::apt().args(["install", "-y", "--no-install-recommends"]).args(packages))?;
    found().ok_or_else(|| "chromium was installed and isn't on PATH".into())
}
