//! What a run was made on.

use std::process::Command;

/// The machine and the tree, in words.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The time of the run in UTC, such as `2026-11-30T08:00:00Z`.
    pub date: String,
    /// The processor, cores and kernel.
    pub machine: String,
    /// The commit, with a plus sign when the tree has changes of its own.
    pub commit: String,
}

impl Machine {
    /// This one, now.
    #[must_use]
    pub fn here() -> Machine {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let kernel = told("uname", &["-sr"]);
        let changed = told("git", &["status", "--porcelain", "--untracked-files=no"]);
        let plus = if changed.is_empty() { "" } else { "+" };
        Machine {
            date: told("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            machine: format!("{}, {cores} cores, {kernel}", model(&cpu)),
            commit: format!("{}{plus}", told("git", &["rev-parse", "--short=12", "HEAD"])),
        }
    }

    /// The day alone.
    #[must_use]
    pub fn day(&self) -> &str {
        self.date.split('T').next().unwrap_or_default()
    }
}

fn model(cpuinfo: &str) -> &str {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or("an unknown processor", |(_, name)| name.trim())
}

fn told(program: &str, args: &[&str]) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let out = Command::new(program).args(args).current_dir(root).output();
    out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A Chip @ 2 GHz\n"), "A Chip @ 2 GHz");
        assert_eq!(model(""), "an unknown processor");
    }
}
