//! What a run leaves behind: a dated JSON, the table of the last run, and the chart.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Failure;
use super::board::Board;
use super::chart;
use super::machine::Machine;
use super::table::markdown;
use super::target::{Target, targets};

/// Writes all three below the repository's root, and answers where.
///
/// # Errors
/// What can't be written.
pub fn save(
    root: &Path,
    board: &Board,
    machine: &Machine,
    lines: &[String],
    settings: &Value,
) -> Result<Vec<PathBuf>, Failure> {
    let results = root.join("benches/results");
    let charts = root.join("docs/charts");
    fs::create_dir_all(&results)?;
    fs::create_dir_all(&charts)?;
    let name = format!("{}.json", machine.day());
    let data = as_json(board, machine, lines, settings);
    let files = [
        (results.join(&name), format!("{data:#}\n")),
        (results.join("README.md"), page(board, machine, &name, lines)),
        (charts.join("referee.svg"), chart::svg(board, &note(machine))),
    ];
    for (file, text) in &files {
        fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(files.into_iter().map(|(file, _)| file).collect())
}

fn note(machine: &Machine) -> String {
    format!("{}, commit {}, {}", machine.day(), machine.commit, machine.machine)
}

/// Everything that was measured, round by round.
#[must_use]
pub fn as_json(board: &Board, machine: &Machine, lines: &[String], settings: &Value) -> Value {
    let sides = board.seats.iter().map(|seat| {
        json!({
            "side": seat.side.name, "store": seat.side.store.words(), "versions": seat.versions,
            "absent": seat.absent,
        })
    });
    let mut rows = Vec::new();
    for (row, seat) in board.rows.iter().flat_map(|row| board.seats.iter().map(move |s| (row, s))) {
        let Some(cell) = board.cell(row.name, seat.side.name) else { continue };
        rows.push(json!({
            "row": row.name, "side": seat.side.name, "unit": row.unit, "n": cell.n,
            "rounds": cell.series.figures().collect::<Vec<_>>(), "median": cell.series.median(),
            "absent": cell.absent, "failed": cell.failed, "inexact": cell.inexact,
        }));
    }
    let target = |target: &Target| {
        json!({
            "what": target.what, "ratio": target.ratio, "wanted": target.wanted.to_string(),
            "verdict": target.verdict.words(),
        })
    };
    json!({
        "date": machine.date, "machine": machine.machine, "commit": machine.commit,
        "settings": settings, "sides": sides.collect::<Vec<_>>(), "rows": rows,
        "targets": targets(board).iter().map(target).collect::<Vec<_>>(), "transcript": lines,
    })
}

fn page(board: &Board, machine: &Machine, data: &str, lines: &[String]) -> String {
    format!(
        "# The referee's last saved run\n\n\
         Written by `cargo xtask referee`; every round is in [{data}]({data}), the chart in\n\
         [docs/charts](../../docs/charts/referee.svg). A figure is the median of the rounds, and\n\
         half of what they lie apart. It says something of one machine at one moment:\n\n\
         {}\n\n{}\n## As it was printed\n\n```text\n{}\n```\n",
        note(machine),
        markdown(board),
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::board::tests::board;

    #[test]
    fn a_run_leaves_rounds_table_and_chart() {
        let dir = emq_dir();
        let board = board(&[("enqueue_50", "ours", &[9.0, 7.0]), ("enqueue_50", "oban", &[2.0])]);
        let machine = Machine {
            date: "2026-11-30T08:00:00Z".to_owned(),
            machine: "a chip".to_owned(),
            commit: "abc".to_owned(),
        };
        let lines = ["derive first".to_owned()];
        let files = save(&dir, &board, &machine, &lines, &json!({ "rounds": 2 })).unwrap();
        let read = |at: usize| fs::read_to_string(&files[at]).unwrap();
        assert!(files[0].ends_with("2026-11-30.json"));
        let data: Value = serde_json::from_str(&read(0)).unwrap();
        assert_eq!(data["rows"][0]["rounds"], json!([9.0, 7.0]));
        assert_eq!(data["rows"][0]["median"], 8.0);
        assert_eq!(data["settings"]["rounds"], 2);
        assert!(
            read(1).contains("| row | unit | ours | oban |") && read(1).contains("derive first")
        );
        assert!(read(2).starts_with("<svg"));
        fs::remove_dir_all(dir).unwrap();
    }

    /// A directory of this test's own.
    fn emq_dir() -> PathBuf {
        let dir = std::env::temp_dir().join(format!("emq-referee-save-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }
}
