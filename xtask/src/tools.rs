//! `cargo xtask tools`: the server's benchmark tool and a second engine version, from Debian.
//!
//! The wheel's server comes alone. Debian's `valkey-tools` (in the release's backports) has the
//! benchmark tool, and in its `valkey-check-rdb` the whole server, which answers to its own name.
//! Where there are no backports, `redis-tools` has an equal benchmark tool.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use emq_testkit::cache_dir;

use crate::{Failure, Outcome, sh};

const BENCHMARKS: [&str; 2] = ["valkey-benchmark", "redis-benchmark"];

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Install the tools with apt (as root), and print the benchmark tool's path
    Install,
    /// Print the benchmark tool's path
    Path,
    /// Print the path of a server of a second engine version, for EMQ_VALKEY_SERVER
    Engine,
}

pub(crate) fn run(command: &Command) -> Outcome {
    let path = match command {
        Command::Install => install()?,
        Command::Path => benchmark()?,
        Command::Engine => second_engine()?,
    };
    println!("{}", path.display());
    Ok(())
}

/// The benchmark tool that the machine has.
pub(crate) fn benchmark() -> Result<PathBuf, Failure> {
    let tool = BENCHMARKS.iter().find_map(|name| sh::find(name));
    tool.ok_or_else(|| "no benchmark tool here: run `cargo xtask tools install`".into())
}

/// A server of another version than the cached one, out of `valkey-tools`.
pub(crate) fn second_engine() -> Result<PathBuf, Failure> {
    let program = sh::find("valkey-check-rdb")
        .ok_or("no second engine: run `cargo xtask tools install` on a Debian machine")?;
    let dir = cache_dir().ok_or("no place for a cache: set EMQ_CACHE")?.join("second-engine");
    fs::create_dir_all(&dir)?;
    let server = dir.join("valkey-server");
    if fs::read_link(&server).ok().as_ref() != Some(&program) {
        let fresh = dir.join(format!("valkey-server.{}", std::process::id()));
        symlink(&program, &fresh)?;
        fs::rename(fresh, &server)?;
    }
    Ok(server)
}

/// Installs what is missing and answers the benchmark tool's path.
pub(crate) fn install() -> Result<PathBuf, Failure> {
    if let Some(tool) = sh::find(BENCHMARKS[0]) {
        return Ok(tool);
    }
    if !sh::has("apt-get") {
        return Err("no apt-get here: install valkey's tools with the machine's packages".into());
    }
    if !sh::is_root() {
        let what = "install valkey-tools (in Debian's backports) or redis-tools";
        return Err(format!("not root: {what}, or run this task as root").into());
    }
    if let Err(failure) = from_backports() {
        eprintln!("no valkey-tools ({failure}): redis-tools instead");
        sh::run(sh::apt().arg("update"))?;
        sh::run(sh::apt().args(["install", "-y", "--no-install-recommends", "redis-tools"]))?;
    }
    benchmark()
}

/// Installs with a copy of the machine's sources that has one entry more; the machine's own stay
/// as they are.
fn from_backports() -> Outcome {
    let release = fs::read_to_string("/etc/os-release")?;
    let suite = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .ok_or("/etc/os-release names no release")?;
    let parts = tempfile::tempdir()?;
    let mut derived = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file)?;
        let name = file.file_name().unwrap_or_default();
        fs::copy(&file, parts.path().join(name))?;
        let kind = if is_deb822(&file) { with_backports } else { line_with_backports };
        if let Some(entry) = kind(&text, &suite) {
            derived.push((is_deb822(&file), entry));
        }
    }
    let (deb822, entry) = derived.into_iter().next().ok_or("no source of the release's suite")?;
    let name = if deb822 { "emq-backports.sources" } else { "emq-backports.list" };
    fs::write(parts.path().join(name), entry)?;
    let option = format!("Dir::Etc::sourceparts={}", parts.path().display());
    // apt reads the files as a user of its own.
    sh::run(sh::program("chmod").args(["-R", "a+rX"]).arg(parts.path()))?;
    sh::run(sh::apt().args(["-o", &option, "update"]))?;
    let package = format!("valkey-tools/{suite}-backports");
    let install = ["install", "-y", "--no-install-recommends", &package];
    sh::run(sh::apt().args(["-o", &option]).args(install))
}

fn sources() -> Vec<PathBuf> {
    let parts = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten();
    let mut files: Vec<_> = parts.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.push(PathBuf::from("/etc/apt/sources.list"));
    files.retain(|file| {
        file.is_file() && (is_deb822(file) || file.extension().is_some_and(|end| end == "list"))
    });
    files
}

fn is_deb822(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "sources")
}

/// The first stanza that has the suite, with the suite's backports instead.
fn with_backports(text: &str, suite: &str) -> Option<String> {
    let has_suite = |line: &str| {
        line.strip_prefix("Suites:")
            .is_some_and(|suites| suites.split_whitespace().any(|s| s == suite))
    };
    let stanza = text.split("\n\n").find(|stanza| stanza.lines().any(has_suite))?;
    let lines = stanza.lines().map(|line| {
        if has_suite(line) { format!("Suites: {suite}-backports") } else { line.to_owned() }
    });
    Some(lines.collect::<Vec<_>>().join("\n") + "\n")
}

/// The same for the one-line format: `deb [options] URI suite components`.
fn line_with_backports(text: &str, suite: &str) -> Option<String> {
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut line = text.lines().map(words).find(|line| {
        line.first().is_some_and(|word| word == "deb") && line.iter().any(|word| word == suite)
    })?;
    let place = line.iter().position(|word| word == suite)?;
    line[place] = format!("{suite}-backports");
    Some(line.join(" ") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stanza_keeps_all_but_its_suite() {
        let text = "Types: deb\nURIs: http://example.test/security\nSuites: twelve-security\n\n\
                    Types: deb\n# a mirror\nURIs: http://example.test/debian\n\
                    Suites: twelve twelve-updates\nComponents: main\nSigned-By: /key\n";
        assert_eq!(
            with_backports(text, "twelve").unwrap(),
            "Types: deb\n# a mirror\nURIs: http://example.test/debian\n\
             Suites: twelve-backports\nComponents: main\nSigned-By: /key\n"
        );
        assert_eq!(with_backports(text, "thirteen"), None);
    }

    #[test]
    fn a_line_keeps_all_but_its_suite() {
        let text = "# deb http://x twelve main\ndeb [signed-by=/key] http://x/d twelve main\n";
        assert_eq!(
            line_with_backports(text, "twelve").unwrap(),
            "deb [signed-by=/key] http://x/d twelve-backports main\n"
        );
    }
}
