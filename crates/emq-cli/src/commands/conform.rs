//! `emq conform`: the fourteen contracts against the caller's server.

use conformance::{Bundle, Failure as Undriven, Report, Set, Suite, Verdict};
use emq_scripts::WIRE_VERSION;
use serde::Serialize;

use crate::connect::Globals;
use crate::exit::{Exit, Failure, chain};
use crate::output::{Grid, Tone};

/// What `emq conform` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this contract
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// One contract, for scripts.
#[derive(Debug, Serialize)]
struct Told<'a> {
    number: u32,
    name: &'a str,
    verdict: &'static str,
    says: &'a str,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    // The bus says best why a server can't be used.
    globals.connect().await?.close().await;
    let url = globals.url()?.to_owned();
    let suite = suite(args.only.as_deref())?;
    let driven = tokio::task::spawn_blocking(move || suite.run(&url)).await;
    let driven =
        driven.map_err(|error| Failure::failed(format!("the contracts stopped: {error}")))?;
    let report = driven.map_err(|error| undriven(&error))?;
    tell(globals, &report)?;
    match report.broken().len() {
        0 => Ok(()),
        n => Err(Failure::new(Exit::Unsound, format!("{n} contracts don't hold on this server"))),
    }
}

/// The contracts, with the scripts that this program calls.
fn suite(only: Option<&str>) -> Result<Suite, Failure> {
    let bundle = emq_scripts::Bundle::embedded();
    let sources = bundle.scripts().iter().map(|script| (script.name(), script.source().as_bytes()));
    let bundle = Bundle::from_sources(WIRE_VERSION, sources).map_err(|error| undriven(&error))?;
    let suite = Suite::embedded(bundle).map_err(|error| undriven(&error))?;
    let Some(name) = only else { return Ok(suite) };
    if !suite.names().any(|known| known == name) {
        let known: Vec<&str> = suite.names().collect();
        let known = known.join(", ");
        return Err(Failure::usage(format!("there is no contract {name:?}; there are {known}")));
    }
    Ok(suite.only(name))
}

fn undriven(error: &Undriven) -> Failure {
    let exit = match error {
        Undriven::FenceVersion { .. } | Undriven::FenceEngine(_) => Exit::Fenced,
        Undriven::Url(_) => Exit::Usage,
        Undriven::Io(_) => Exit::Unreachable,
        _ => Exit::Failed,
    };
    Failure::new(exit, chain(error))
}

fn tell(globals: &Globals, report: &Report) -> Result<(), Failure> {
    let out = globals.out();
    let told = report.lines.iter().map(|line| {
        let (verdict, says) = match &line.verdict {
            Verdict::Holds(why) => ("holds", why),
            Verdict::Broken(why) => ("broken", why),
            Verdict::Skipped(why) => ("skipped", why),
        };
        Told { number: line.number, name: &line.name, verdict, says }
    });
    if out.json() {
        return out.value(&told.collect::<Vec<_>>());
    }
    let mut grid = Grid::new(&[">N", "CONTRACT", "VERDICT", "SAYS"]);
    for line in told {
        let tone = match line.verdict {
            "holds" => Tone::Good,
            "broken" => Tone::Bad,
            _ => Tone::Warn,
        };
        grid.row([
            (line.number.to_string(), Tone::Quiet),
            (line.name.to_owned(), Tone::Plain),
            (line.verdict.to_owned(), tone),
            (line.says.to_owned(), Tone::Quiet),
        ]);
    }
    out.grid(&grid)?;
    out.line(report.count(Set::Seed))
}
