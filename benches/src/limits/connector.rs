//! The connection beside the server's benchmark tool and the connectors of the field.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use emq_testkit::Valkey;
use emq_wire::{Cmd, Connection, Pipeline, Reply};

use crate::board::{Board, Bound};
use crate::figures::{median, ratio, spread};
use crate::rivals::{self, Rival};
use crate::{Failure, Plan, require};

/// As long as the benchmark tool sends them.
const KEY: &str = "key:000000000000";
const VALUE: &str = "xxx";
/// Commands of one pipeline.
const DEPTH: usize = 100;
/// Tasks that share the connection.
const TASKS: usize = 64;

/// One kind of work.
struct Row {
    name: &'static str,
    says: &'static str,
    /// The tool's pipeline.
    depth: usize,
    at_least: f64,
}

const ROWS: [Row; 2] = [
    Row { name: "set_pipelined", says: "pipelined SET, depth 100", depth: DEPTH, at_least: 0.9 },
    Row { name: "set_64_tasks", says: "64 tasks share it", depth: TASKS, at_least: 0.8 },
];

pub(crate) async fn measure(plan: &Plan, board: &mut Board) -> Result<(), Failure> {
    let valkey = Valkey::start()?;
    let n = plan.size(100_000, 500_000);
    let field = if plan.connectors.is_some() { rivals::FIELD } else { &[] };
    let mut ours = ROWS.map(|_| Vec::new());
    let mut tools = ROWS.map(|_| Vec::new());
    let mut theirs = vec![ROWS.map(|_| Vec::new()); field.len()];
    for _ in 0..plan.rounds {
        for (at, row) in ROWS.iter().enumerate() {
            if let Some(tool) = &plan.tool {
                tools[at].push(run_tool(tool, valkey.port(), row.depth, n)?);
            }
            ours[at].push(run_ours(&valkey, row, n).await?);
            for (rival, rates) in field.iter().zip(&mut theirs) {
                let program = plan.connectors.as_deref().ok_or("no connectors")?;
                rates[at].push(rival.run(program, valkey.port(), row.name, n)?);
            }
        }
    }
    for (at, row) in ROWS.iter().enumerate() {
        let our = &ours[at];
        println!("  {}: ours {} ({})", row.says, rate(our), spread(our));
        beside_the_tool(board, row, our, &tools[at]);
        let rates: Vec<_> = field.iter().zip(theirs.iter().map(|rates| &rates[at][..])).collect();
        beside_the_field(board, row, our, &rates);
    }
    Ok(())
}

fn rate(rates: &[f64]) -> String {
    format!("{:.0}/s", median(rates.iter().copied()))
}

fn beside_the_tool(board: &mut Board, row: &Row, ours: &[f64], tool: &[f64]) {
    let target = format!("connector, {}, beside the tool at -c 1 -P {}", row.says, row.depth);
    if tool.is_empty() {
        return board.leave_out(&target, "no benchmark tool: cargo xtask tools install");
    }
    let measured = format!("{}, the tool {} ({})", rate(ours), rate(tool), spread(tool));
    board.judge(&target, measured, ratio(ours, tool), Bound::AtLeast(row.at_least));
}

fn beside_the_field(board: &mut Board, row: &Row, ours: &[f64], field: &[(&Rival, &[f64])]) {
    let target = format!("connector, {}, beside the best of the field", row.says);
    for (rival, rates) in field {
        board.tell(&format!("  {rival}"), rate(rates), Some(ratio(ours, rates)));
    }
    // The best is who leaves us the least.
    match field.iter().min_by(|a, b| ratio(ours, a.1).total_cmp(&ratio(ours, b.1))) {
        Some((rival, rates)) => {
            let measured = format!("{}, {rival} {}", rate(ours), rate(rates));
            board.judge(&target, measured, ratio(ours, rates), Bound::Over(1.0));
        }
        None => board.leave_out(&target, "the program of benches/rivals/connectors isn't built"),
    }
}

/// Ours, on a fresh connection.
async fn run_ours(valkey: &Valkey, row: &Row, n: usize) -> Result<f64, Failure> {
    let connection = Connection::connect(valkey.url().parse()?).await?;
    // The first calls pay for what is made once.
    shared(&connection, 1_000).await?;
    let begun = Instant::now();
    if row.name == "set_pipelined" {
        pipelined(&connection, n).await?;
    } else {
        shared(&connection, n).await?;
    }
    let took = begun.elapsed().as_secs_f64();
    connection.close().await;
    Ok(n as f64 / took)
}

fn set() -> Cmd {
    Cmd::new("SET").arg(KEY).arg(VALUE)
}

fn accepted(reply: &Reply) -> Result<(), Failure> {
    require(reply.as_error().is_none(), || format!("SET was answered {reply:?}"))
}

async fn pipelined(connection: &Connection, n: usize) -> Result<(), Failure> {
    for _ in 0..n / DEPTH {
        let pipeline: Pipeline = (0..DEPTH).map(|_| set()).collect();
        connection.pipeline(pipeline).await?.iter().try_for_each(accepted)?;
    }
    Ok(())
}

async fn shared(connection: &Connection, n: usize) -> Result<(), Failure> {
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move {
                for _ in 0..n / TASKS {
                    accepted(&connection.command(set()).await?)?;
                }
                Ok::<(), Failure>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// One run of the server's benchmark tool: SET at a depth, on one connection.
fn run_tool(tool: &Path, port: u16, depth: usize, n: usize) -> Result<f64, Failure> {
    let out = Command::new(tool)
        .args(["-p", &port.to_string(), "-c", "1", "-P", &depth.to_string()])
        .args(["-n", &n.to_string(), "-t", "set", "--csv"])
        .stderr(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", tool.display()))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let mut rates = text.lines().filter_map(|line| line.strip_prefix("\"SET\",\""));
    let rate = rates.find_map(|rest| rest.split('"').next()?.parse().ok());
    rate.ok_or_else(|| format!("the benchmark tool said {text:?}").into())
}
