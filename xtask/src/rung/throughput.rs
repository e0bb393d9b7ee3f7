//! Gate A6: our rates beside the server's own benchmark tool, in the same run.

use std::process::Stdio;

use super::Finding;
use super::ground::{Ground, require};
use crate::{Failure, sh};

/// How often each side runs, in turns; medians are compared.
const ROUNDS: usize = 5;
/// 64 tasks on one connection must reach this share of the tool's rate at `-c 1 -P 64`.
const SHARED_FLOOR: f64 = 0.8;

/// The client's rates, measured by a release build of the connector's own example.
#[derive(Debug, serde::Deserialize)]
struct Ours {
    sequential: f64,
    pipelined: f64,
    pipelined_evalsha: f64,
    shared: f64,
}

pub(super) async fn gate(ground: &Ground) -> Finding {
    let tool = tool()?;
    let (url, port) = (ground.valkey().url(), ground.valkey().port());
    let build =
        ["build", "--quiet", "--release", "--package", "emq-wire", "--example", "throughput"];
    sh::run(sh::cargo().args(build))?;
    let target = cargo_metadata::MetadataCommand::new().no_deps().exec()?.target_directory;
    let client = target.join("release/examples/throughput");
    let mut ours: Vec<Ours> = Vec::new();
    let mut theirs = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        // Run as it is: cargo would wait for whoever else builds here, in the middle of a round.
        let json = sh::output(sh::program(&client).arg(&url))?;
        ours.push(serde_json::from_str(&json)?);
        for (rates, (depth, count)) in
            theirs.iter_mut().zip([(1, 20_000), (100, 500_000), (64, 500_000)])
        {
            rates.push(measure(&tool, port, depth, count)?);
        }
    }
    let ours_by = |pick: fn(&Ours) -> f64| median(ours.iter().map(pick).collect());
    let (sequential, pipelined) = (ours_by(|o| o.sequential), ours_by(|o| o.pipelined));
    let (evalsha, shared) = (ours_by(|o| o.pipelined_evalsha), ours_by(|o| o.shared));
    let [tool_sequential, tool_pipelined, tool_shared] = theirs.map(median);
    let ratio = shared / tool_shared;
    require(ratio >= SHARED_FLOOR, || {
        format!(
            "64 tasks {shared:.0}/s, the tool {tool_shared:.0}/s: {ratio:.2} is under {SHARED_FLOOR}"
        )
    })?;
    Ok(format!(
        "SET one by one {sequential:.0}/s (tool -c 1 -P 1 {tool_sequential:.0}/s, ratio {:.2}); \
         pipeline of 100 {pipelined:.0}/s (tool -c 1 -P 100 {tool_pipelined:.0}/s, ratio {:.2}); \
         64 tasks {shared:.0}/s (tool -c 1 -P 64 {tool_shared:.0}/s, ratio {ratio:.2}); \
         pipeline of 100 EVALSHA {evalsha:.0}/s; medians of {ROUNDS}",
        sequential / tool_sequential,
        pipelined / tool_pipelined,
    ))
}

/// The server's benchmark tool, under either of its names.
fn tool() -> Result<std::path::PathBuf, Failure> {
    ["valkey-benchmark", "redis-benchmark"].iter().find_map(|name| sh::find(name)).ok_or_else(
        || "the server's benchmark tool isn't there; run `cargo xtask tools install`".into(),
    )
}

/// One run of the tool: SET at a depth, on one connection.
fn measure(tool: &std::path::Path, port: u16, depth: u32, count: u32) -> Result<f64, Failure> {
    let out = std::process::Command::new(tool)
        .args(["-p", &port.to_string(), "-c", "1", "-P", &depth.to_string()])
        .args(["-n", &count.to_string(), "-t", "set", "--csv"])
        .stderr(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    text.lines()
        .filter_map(|line| line.strip_prefix("\"SET\",\""))
        .find_map(|rest| rest.split('"').next()?.parse().ok())
        .ok_or_else(|| format!("the benchmark tool said {text:?}").into())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
