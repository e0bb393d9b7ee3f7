//! The Rust driver as a program: the same arguments, lines and exit codes as the others.

use std::path::PathBuf;
use std::process::ExitCode;

use conformance::{Bundle, Failure, Report, Sabotage, Set, Suite, home};

const USAGE: &str = "USAGE conformance --url URL --bundle DIR [--set seed|second|all] \
                     [--only NAME] [--sabotage token|kind|ring|wake] [--own-server]";

struct Args {
    url: String,
    bundle: PathBuf,
    set: Set,
    only: Option<String>,
    sabotage: Option<Sabotage>,
    own_server: bool,
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a program's report")]
fn main() -> ExitCode {
    let Some(args) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&args) {
        Ok(report) => {
            print!("{report}");
            if report.all_hold() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(args: &Args) -> Result<Report, Failure> {
    let mut suite = Suite::load(Bundle::load(&args.bundle, &home())?, args.set)?;
    if let Some(name) = &args.only {
        suite = suite.only(name);
    }
    if let Some(sabotage) = args.sabotage {
        suite = suite.sabotaged(sabotage);
    }
    if args.own_server {
        suite = suite.own_server();
    }
    suite.run(&args.url)
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Args> {
    let (mut url, mut bundle) = (None, None);
    let (mut set, mut only, mut sabotage, mut own_server) = (Set::Seed, None, None, false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--url" => url = Some(words.next()?),
            "--bundle" => bundle = Some(words.next()?.into()),
            "--set" => set = Set::named(&words.next()?)?,
            "--only" => only = Some(words.next()?),
            "--sabotage" => sabotage = Some(Sabotage::named(&words.next()?)?),
            "--own-server" => own_server = true,
            _ => return None,
        }
    }
    Some(Args { url: url?, bundle: bundle?, set, only, sabotage, own_server })
}
