//! `cargo xtask rung`: a chapter's gates against a live Valkey, and their frozen transcripts.

mod connector;
mod contest;
mod ground;
mod jobs;
mod keyspace;
mod lanes;
mod machine;
mod rival;
mod shelves;
mod stores;
mod surface;
mod throughput;
mod transcript;

use std::future::Future;
use std::pin::Pin;

use self::ground::Ground;
use self::transcript::{Seen, Verdict};
use crate::books::Backing;
use crate::{Failure, Outcome, sh};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The chapter: A, 3.1, ... or all
    rung: String,
    /// Write the transcripts to docs/rungs instead of comparing with those there
    #[arg(long)]
    freeze: bool,
    /// The only store of rung 3.5 [default: memory, sqlite, and postgres where one answers]
    #[arg(long, value_enum)]
    store: Option<Backing>,
}

/// What a gate saw, in words and numbers; a failure says what went wrong instead.
type Finding = Result<String, Failure>;
/// A gate's check.
type Check = for<'a> fn(&'a Ground) -> Pin<Box<dyn Future<Output = Finding> + Send + 'a>>;

/// One gate of a chapter.
pub(super) struct Gate {
    /// Its number and its word, `A1 fence`.
    name: &'static str,
    check: Check,
}

/// One chapter.
struct Rung {
    number: &'static str,
    chapter: &'static str,
    /// The transcript's file name.
    file: &'static str,
    gates: &'static [Gate],
}

/// Names a gate and boxes its check.
macro_rules! gate {
    ($name:literal, $check:path) => {
        $crate::rung::Gate { name: $name, check: |ground| Box::pin($check(ground)) }
    };
}
use gate;

const RUNGS: &[Rung] = &[
    Rung {
        number: "A",
        chapter: "the connector",
        file: "emq_connector_check.out",
        gates: connector::GATES,
    },
    Rung {
        number: "3.1",
        chapter: "the fence and the keyspace",
        file: "bcs_rung_3_1_check.out",
        gates: keyspace::GATES,
    },
    Rung {
        number: "3.2",
        chapter: "jobs are entities",
        file: "bcs_rung_3_2_check.out",
        gates: jobs::GATES,
    },
    Rung {
        number: "3.3",
        chapter: "the state machine in Lua",
        file: "bcs_rung_3_3_check.out",
        gates: machine::GATES,
    },
    Rung {
        number: "3.4",
        chapter: "fair lanes",
        file: "bcs_rung_3_4_check.out",
        gates: lanes::GATES,
    },
    Rung {
        number: "3.5",
        chapter: "the bus meets the stores",
        file: "bcs_rung_3_5_check.out",
        gates: stores::GATES,
    },
    Rung {
        number: "3.6",
        chapter: "conformance and the rival",
        file: "bcs_rung_3_6_check.out",
        gates: rival::GATES,
    },
];

pub(crate) fn run(args: &Args) -> Outcome {
    crate::valkey::ensure()?;
    let chosen: Vec<&Rung> =
        RUNGS.iter().filter(|r| args.rung == "all" || r.number == args.rung).collect();
    if chosen.is_empty() {
        let known: Vec<&str> = RUNGS.iter().map(|r| r.number).collect();
        return Err(format!("no rung {}; there are {} and all", args.rung, known.join(", ")).into());
    }
    let runtime = tokio::runtime::Runtime::new()?;
    let mut failed = Vec::new();
    for rung in chosen {
        if let Err(failure) = runtime.block_on(climb(rung, args)) {
            eprintln!("rung {}: {}", rung.number, crate::with_causes(failure.as_ref()));
            failed.push(rung.number);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

/// Runs a chapter's gates, prints them, and freezes or compares.
async fn climb(rung: &Rung, args: &Args) -> Outcome {
    let ground = Ground::start(args.store)?;
    let mut seen = Seen::new(rung.number, rung.chapter, ground.valkey().version()?);
    for line in seen.header() {
        println!("{line}");
    }
    for gate in rung.gates {
        let finding = (gate.check)(&ground).await;
        let verdict = match finding {
            Ok(words) => Verdict { name: gate.name, ok: true, words },
            Err(failure) => {
                Verdict { name: gate.name, ok: false, words: crate::with_causes(failure.as_ref()) }
            }
        };
        println!("{}", verdict.line());
        seen.push(verdict);
    }
    println!("{}", seen.tally());
    let path = sh::root().join("docs/rungs").join(rung.file);
    if !seen.all_ok() {
        return Err("a gate failed".into());
    }
    if args.freeze {
        seen.write(&path)?;
        println!("frozen: docs/rungs/{}", rung.file);
        return Ok(());
    }
    seen.compare(&path)?;
    println!("matches docs/rungs/{}", rung.file);
    Ok(())
}
