//! The connectors of the field: a program of its own, with orders as a contender takes them.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Failure;

/// One client on one kind of runtime.
#[derive(Clone, Copy)]
pub(crate) struct Rival {
    client: &'static str,
    runtime: &'static str,
}

/// Who there is.
pub(crate) const FIELD: &[Rival] = &[
    Rival { client: "redis-1", runtime: "current-thread" },
    Rival { client: "redis-1", runtime: "two-threads" },
    Rival { client: "redis-2", runtime: "current-thread" },
    Rival { client: "redis-2", runtime: "two-threads" },
    Rival { client: "fred", runtime: "current-thread" },
    Rival { client: "fred", runtime: "two-threads" },
];

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.client, self.runtime)
    }
}

impl Rival {
    /// Its rate in one row.
    pub(crate) fn run(
        self,
        program: &Path,
        port: u16,
        row: &str,
        n: usize,
    ) -> Result<f64, Failure> {
        let out = Command::new(program)
            .args([self.client, self.runtime])
            .env("REFEREE_URL", format!("redis://127.0.0.1:{port}"))
            .env("REFEREE_ROWS", format!("{row}={n}"))
            .stderr(Stdio::inherit())
            .output()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let text = String::from_utf8_lossy(&out.stdout);
        rate(&text, row).ok_or_else(|| format!("{self} said {text:?}").into())
    }
}

fn rate(lines: &str, row: &str) -> Option<f64> {
    let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.find(|line| line["row"] == row)?["per_s"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_row_asked() {
        let lines = "{\"row\":\"versions\",\"redis\":\"1\"}\n{\"row\":\"a\",\"per_s\":7}\n\
                     {\"row\":\"b\",\"failed\":\"closed\"}\n";
        assert_eq!(rate(lines, "a"), Some(7.0));
        assert_eq!(rate(lines, "b"), None);
        assert_eq!(rate(lines, "c"), None);
    }
}
