//! `cargo xtask conformance`: the contracts of the wire, driven in each language.

use std::time::Instant;

use conformance::{Bundle, Port, Sabotage, Set, Suite, home};
use emq_testkit::Valkey;

use crate::ci::Verdict;
use crate::{Failure, Outcome, sh, valkey};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A server that is running already, instead of one started here; contracts that would change
    /// it for everybody are skipped
    #[arg(long)]
    url: Option<String>,
    /// Who drives
    #[arg(long, default_value = "rust", value_parser = ["rust", "python", "node", "all"])]
    driver: String,
    /// The fourteen, those since, or both
    #[arg(long, default_value = "all", value_parser = ["seed", "second", "all"])]
    set: String,
    /// Only the contract of this name
    #[arg(long)]
    only: Option<String>,
    /// Drive as a client that is broken in this way; the contracts must find it
    #[arg(long, value_parser = ["token", "kind", "ring", "wake"])]
    sabotage: Option<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let left_out = drive(args)?;
    match (left_out.is_empty(), args.driver.as_str()) {
        (false, driver) if driver != "all" => Err(left_out.join(", ").into()),
        _ => Ok(()),
    }
}

/// The job of `cargo xtask ci`: all drivers, and the golden vectors.
pub(crate) fn job() -> Result<Verdict, Failure> {
    let (driver, set) = ("all".to_owned(), "all".to_owned());
    let left_out = drive(&Args { url: None, driver, set, only: None, sabotage: None })?;
    crate::vectors::run(&crate::vectors::Args { check: true })?;
    Ok(match left_out.is_empty() {
        true => Verdict::Passed,
        false => Verdict::Skipped(format!("in part: {}", left_out.join(", "))),
    })
}

/// Runs the drivers; the answer is those that this machine can't run, and why.
fn drive(args: &Args) -> Result<Vec<String>, Failure> {
    if args.url.is_none() {
        valkey::ensure()?;
    }
    let wanted = |name: &str| args.driver == name || args.driver == "all";
    let (mut broken, mut left_out) = (Vec::new(), Vec::new());
    if wanted("rust") && !timed("rust", || in_rust(args))? {
        broken.push("rust");
    }
    for (name, port) in Port::ALL.into_iter().filter(|(name, _)| wanted(name)) {
        if let Some(hindrance) = port.hindrance() {
            println!("driver {name}: skipped, {hindrance}");
            left_out.push(format!("{name}: {hindrance}"));
        } else if !timed(name, || in_port(args, port))? {
            broken.push(name);
        }
    }
    if broken.is_empty() { Ok(left_out) } else { Err(format!("broken: {broken:?}").into()) }
}

fn timed(name: &str, run: impl FnOnce() -> Result<bool, Failure>) -> Result<bool, Failure> {
    println!("driver {name}");
    let start = Instant::now();
    let held = run()?;
    println!("driver {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(held)
}

fn in_rust(args: &Args) -> Result<bool, Failure> {
    let set = Set::named(&args.set).ok_or("no such set")?;
    let mut suite = Suite::load(Bundle::load(&sh::root().join("lua"), &home())?, set)?;
    if let Some(name) = &args.only {
        suite = suite.only(name);
    }
    if let Some(sabotage) = args.sabotage.as_deref().and_then(Sabotage::named) {
        suite = suite.sabotaged(sabotage);
    }
    let report = match &args.url {
        Some(url) => suite.run(url)?,
        None => suite.own_server().run(&Valkey::start()?.url())?,
    };
    print!("{report}");
    Ok(report.all_hold())
}

fn in_port(args: &Args, port: Port) -> Result<bool, Failure> {
    let mut command = port.command()?;
    command.arg("--bundle").arg(sh::root().join("lua")).args(["--set", &args.set]);
    for (flag, value) in [("--only", &args.only), ("--sabotage", &args.sabotage)] {
        if let Some(value) = value {
            command.args([flag, value]);
        }
    }
    let own = if args.url.is_none() { Some(Valkey::start()?) } else { None };
    match (&args.url, &own) {
        (Some(url), _) => command.args(["--url", url]),
        (None, Some(own)) => command.args(["--url", &own.url(), "--own-server"]),
        (None, None) => return Err("no server".into()),
    };
    let status = command.status().map_err(|e| format!("{}: {e}", sh::line(&command)))?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(format!("{}: {status}", sh::line(&command)).into()),
    }
}
