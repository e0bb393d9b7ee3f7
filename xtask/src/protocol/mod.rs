//! `cargo xtask protocol`: `docs/PROTOCOL.md`, the protocol on one page, for who writes a client.
//!
//! The scripts come from their headers, the digests from the manifest, the refusals from the table
//! of emq-scripts. What none of them holds is written in `template.md`; that it leaves nothing out
//! is checked: every type of key, every field that a script writes.

mod fields;
mod render;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use emq_keys::QueueFact;
use serde::Deserialize;

use crate::tidy::header::Header;
use crate::{Failure, Outcome, sh};

const PAGE: &str = "docs/PROTOCOL.md";
const TEMPLATE: &str = "xtask/src/protocol/template.md";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only compare with the committed page
    #[arg(long)]
    check: bool,
}

/// What the page is made of.
struct Sources {
    wire: String,
    rev: u32,
    scripts: Vec<Script>,
}

/// One script of the bundle, in the manifest's order.
struct Script {
    name: String,
    sha1: String,
    header: Header,
    text: String,
}

#[derive(Deserialize)]
struct Manifest {
    wire: String,
    rev: u32,
    scripts: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    file: String,
    sha1: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let root = sh::root();
    let sources = Sources::read(&root.join("lua"))?;
    let template = read(&root.join(TEMPLATE))?;
    let missing = missing(&template, &sources);
    if !missing.is_empty() {
        return Err(format!("{TEMPLATE} says nothing of {}", missing.join(", ")).into());
    }
    let page = render::page(&template, &sources)?;
    let path = root.join(PAGE);
    if !args.check {
        fs::write(&path, &page).map_err(|e| format!("{PAGE}: {e}"))?;
        println!("wrote {PAGE}: {} scripts of revision {}", sources.scripts.len(), sources.rev);
        return Ok(());
    }
    match difference(&fs::read_to_string(&path).unwrap_or_default(), &page) {
        None => {
            println!("protocol: {PAGE} is what headers, manifest and template make");
            Ok(())
        }
        Some(line) => Err(format!("{PAGE}:{line} differs; run `cargo xtask protocol`").into()),
    }
}

impl Sources {
    fn read(lua: &Path) -> Result<Sources, Failure> {
        let Manifest { wire, rev, scripts } = toml::from_str(&read(&lua.join("manifest.toml"))?)?;
        let scripts = scripts.into_iter().map(|Entry { name, file, sha1 }| {
            let text = read(&lua.join(&file))?;
            let header = Header::parse(&text).map_err(|why| format!("lua/{file}: {why}"))?;
            Ok(Script { name, sha1, header, text })
        });
        Ok(Sources { wire, rev, scripts: scripts.collect::<Result<_, Failure>>()? })
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()).into())
}

/// What the template leaves out: types of keys that have no row in its table, fields that scripts
/// write into rows or into `meta`.
fn missing(template: &str, sources: &Sources) -> Vec<String> {
    let mut missing = Vec::new();
    for fact in QueueFact::ALL {
        if !has_row(template, "## Keys", fact.as_str()) {
            missing.push(format!("the key {fact}"));
        }
    }
    let mut written = fields::Written::default();
    sources.scripts.iter().for_each(|script| written.add(&script.text));
    for (heading, what, names) in [
        ("## The row", "the row's field", &written.row),
        ("## Queue-wide facts", "meta's field", &written.meta),
    ] {
        let absent = names.iter().filter(|name| !has_row(template, heading, name));
        missing.extend(absent.map(|name| format!("{what} {name}")));
    }
    missing
}

/// Whether the section has a table with a row that starts with this name.
fn has_row(template: &str, heading: &str, name: &str) -> bool {
    let section = template.lines().skip_while(|line| *line != heading).skip(1);
    let mut rows = section.take_while(|line| !line.starts_with("## "));
    rows.any(|line| {
        let cell = line.strip_prefix('|').and_then(|line| line.split('|').next());
        cell.is_some_and(|cell| cell.split(',').any(|part| part.trim() == format!("`{name}`")))
    })
}

/// The first line, from one, in which two texts differ.
fn difference(found: &str, right: &str) -> Option<usize> {
    if found == right {
        return None;
    }
    let same = found.lines().zip(right.lines()).take_while(|(a, b)| a == b).count();
    Some(same + 1)
}
