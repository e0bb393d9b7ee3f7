//! Budgets of files and lines, as warnings: a file that grew past them wants to be split.

use std::fs;
use std::path::Path;

use crate::Failure;

const MAX_LINES: usize = 400;
const MAX_COLUMNS: usize = 100;
/// Where code lives; generated scripts are judged by their templates.
const FOLDERS: [&str; 5] = ["crates", "xtask", "lua/src", "benches", "conformance"];

/// A line for each file over a budget.
pub(super) fn warnings(root: &Path) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for folder in FOLDERS {
        walk(root, &root.join(folder), &mut warnings)?;
    }
    warnings.sort();
    Ok(warnings)
}

fn walk(root: &Path, dir: &Path, warnings: &mut Vec<String>) -> Result<(), Failure> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_symlink() || name.starts_with('.') || name == "target" {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, warnings)?;
        } else if name.ends_with(".rs") || name.ends_with(".lua") {
            let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            warnings.extend(of_file(&shown, &text));
        }
    }
    Ok(())
}

/// The warnings of one file.
pub(super) fn of_file(path: &str, text: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let lines = text.lines().count();
    if lines > MAX_LINES {
        warnings.push(format!("{path}: {lines} lines; aim for {MAX_LINES}"));
    }
    for (n, line) in (1..).zip(text.lines()) {
        let columns = line.chars().count();
        if columns > MAX_COLUMNS {
            warnings.push(format!("{path}:{n}: {columns} columns; aim for {MAX_COLUMNS}"));
        }
    }
    warnings
}
