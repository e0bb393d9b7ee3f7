//! `emq doctor`: examines queues while they run, and mends them.

use emq_core::DoctorReport;
use serde::Serialize;

use crate::connect::Globals;
use crate::exit::{Exit, Failure};
use crate::output::{Out, printable};

/// What `emq doctor` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these queues; all of the server unless said
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    /// Mend what can be mended safely
    #[arg(long)]
    repair: bool,
}

/// What was found in one queue.
#[derive(Debug, Serialize)]
struct Examination {
    queue: String,
    healthy: bool,
    findings: Vec<Found>,
    jobs: u64,
    lanes: u64,
    unique_keys: u64,
}

#[derive(Debug, Serialize)]
struct Found {
    what: String,
    fault: bool,
    mended: bool,
}

pub(crate) async fn run(globals: &Globals, args: Args) -> Result<(), Failure> {
    let mut queues = Vec::new();
    if args.queues.is_empty() {
        let bus = globals.connect().await?;
        for name in bus.queues().collect().await? {
            queues.push(bus.queue(name.as_str())?);
        }
    } else {
        for name in &args.queues {
            // One that is so torn that nothing but rows is left has to be looked at too.
            let queue = globals.queue(name).await?;
            if !queue.exists().await? && queue.doctor().examine().await?.is_healthy() {
                globals.known_queue(name).await?;
            }
            queues.push(queue);
        }
    }
    let out = globals.out();
    let (mut unmended, mut sick) = (0, 0);
    for queue in &queues {
        let doctor = queue.doctor();
        let report = if args.repair { doctor.repair().await } else { doctor.examine().await }?;
        let left = report.unmended().count();
        unmended += left;
        sick += usize::from(left > 0);
        tell(out, queue.name().as_str(), &report)?;
    }
    if queues.is_empty() && !out.json() {
        out.line("no queues: none has a job or a setting")?;
    }
    if unmended == 0 {
        return Ok(());
    }
    let advice = if args.repair { "they are an operator's to decide" } else { "see --repair" };
    Err(Failure::new(
        Exit::Unsound,
        format!("faults of {sick} queues stand, {unmended} in all: {advice}"),
    ))
}

fn tell(out: Out, queue: &str, report: &DoctorReport) -> Result<(), Failure> {
    let findings: Vec<Found> = report
        .diagnoses
        .iter()
        .map(|diagnosis| Found {
            what: diagnosis.finding.to_string(),
            fault: diagnosis.finding.is_fault(),
            mended: diagnosis.mended,
        })
        .collect();
    let seen = report.examined;
    if out.json() {
        return out.value(&Examination {
            queue: queue.to_owned(),
            healthy: report.is_healthy(),
            findings,
            jobs: seen.jobs,
            lanes: seen.lanes,
            unique_keys: seen.unique_keys,
        });
    }
    for found in &findings {
        let fate = match (found.fault, found.mended) {
            (_, true) => "mended",
            (true, false) => "stands",
            (false, false) => "no fault",
        };
        out.line(format!("{queue}: {} ({fate})", printable(&found.what)))?;
    }
    let looks = format!(
        "{} looks at jobs, {} at lanes, {} at unique keys",
        seen.jobs, seen.lanes, seen.unique_keys
    );
    match report.unmended().count() {
        0 => out.line(format!("{queue}: sound ({looks})")),
        n => out.line(format!("{queue}: {n} faults stand ({looks})")),
    }
}
