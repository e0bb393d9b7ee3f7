//! `cargo xtask vectors`: the golden vectors that any implementation must reproduce.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conformance::{Bundle, Session, Set, Suite, home};
use emq_keys::{BrandedId, Key, QueueFact, QueueKeys, QueueName, ReserveFact, slot};
use emq_testkit::Valkey;
use serde_json::{Value, json};

use crate::{Failure, Outcome, sh, valkey};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compare with what is committed instead of writing it
    #[arg(long)]
    pub(crate) check: bool,
}

/// A file of the vectors: its path in their folder, and its text.
type File = (String, String);

pub(crate) fn run(args: &Args) -> Outcome {
    valkey::ensure()?;
    let folder = home().join("vectors");
    let (suite, sessions, files) = everything()?;
    if args.check {
        let stale = stale(&folder, &suite, &sessions, &files)?;
        if let Some(first) = stale.first() {
            let more = stale.len() - 1;
            return Err(format!("{first} (and {more} more): run cargo xtask vectors").into());
        }
        println!("vectors: {} files and {} sessions hold", files.len(), sessions.len());
        return Ok(());
    }
    for (path, text) in files.into_iter().chain(sessions.iter().map(file_of)) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().ok_or("a file is in a folder")?)?;
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let known: BTreeSet<String> = sessions.iter().map(|session| file_of(session).0).collect();
    for path in committed_sessions(&folder)? {
        if !known.contains(&path) {
            fs::remove_file(folder.join(path))?;
        }
    }
    println!("vectors: written, {} sessions", sessions.len());
    Ok(())
}

fn everything() -> Result<(Suite, Vec<Session>, Vec<File>), Failure> {
    let bundle = Bundle::load(&sh::root().join("lua"), &home())?;
    let scripts = json!({
        "wire": bundle.wire,
        "sha1": bundle.digests().map(|(name, sha1)| json!({ "script": name, "sha1": sha1 }))
            .collect::<Vec<_>>(),
    });
    let mut files = vec![("scripts.json".to_owned(), pretty(&scripts)?)];
    files.push(("keys.json".to_owned(), pretty(&keys()?)?));
    for name in ["identity.json", "slots.json"] {
        let source = sh::root().join("crates/emq-keys/tests/vectors").join(name);
        let text = fs::read_to_string(&source);
        files.push((name.to_owned(), text.map_err(|e| format!("{}: {e}", source.display()))?));
    }
    let suite = Suite::load(bundle, Set::All)?;
    let sessions = suite.record(&Valkey::start()?.url())?;
    Ok((suite, sessions, files))
}

fn file_of(session: &Session) -> File {
    let set = if session.set == Set::Seed { "seed" } else { "second" };
    (format!("sessions/{set}/{}.resp", session.name), session.text())
}

fn pretty(value: &Value) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Every key shape of one queue and the reserve, with its structure and slot.
fn keys() -> Result<Value, Failure> {
    let keys = QueueKeys::new(QueueName::new("orders")?);
    let job: BrandedId = "JOB0NgWEfAEJfs".parse()?;
    let lane: BrandedId = "TEN0KHTOWnGLuC".parse()?;
    let mut shapes: Vec<String> =
        QueueFact::ALL.into_iter().map(|fact| keys.fact(fact).to_owned()).collect();
    shapes.extend([keys.job(&job), keys.lane(&lane)]);
    shapes.extend(ReserveFact::ALL.into_iter().map(|fact| fact.key().to_owned()));
    let shape = |key: &String| {
        let structure = Key::parse(key.as_bytes())?.structure().map(|s| s.to_string());
        Ok::<_, Failure>(
            json!({ "key": key, "structure": structure, "slot": slot(key.as_bytes()) }),
        )
    };
    Ok(json!({
        "queue": "orders",
        "job": job.to_string(),
        "lane": lane.to_string(),
        "keys": shapes.iter().map(shape).collect::<Result<Vec<_>, _>>()?,
    }))
}

/// A line for each committed file that isn't what it would be now.
fn stale(
    folder: &Path,
    suite: &Suite,
    sessions: &[Session],
    files: &[File],
) -> Result<Vec<String>, Failure> {
    let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap_or_default();
    let mut stale = Vec::new();
    for (path, text) in files.iter().filter(|(path, text)| read(path) != *text) {
        stale.push(format!("{path}: it would have other text now, {} bytes", text.len()));
    }
    let mut committed = committed_sessions(folder)?;
    for session in sessions {
        let (path, _) = file_of(session);
        stale.extend(suite.difference(session, &read(&path)));
        committed.remove(&path);
    }
    stale.extend(committed.into_iter().map(|path| format!("{path}: no contract is called so")));
    Ok(stale)
}

fn committed_sessions(folder: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut paths = BTreeSet::new();
    for set in ["seed", "second"] {
        let inside = format!("sessions/{set}");
        let Ok(entries) = fs::read_dir(folder.join(&inside)) else { continue };
        for entry in entries {
            paths.insert(format!("{inside}/{}", entry?.file_name().to_string_lossy()));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_vectors_are_those_of_this_tree() {
        run(&Args { check: true }).unwrap();
    }

    #[test]
    fn a_changed_vector_is_found() {
        let (suite, sessions, files) = everything().unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().cloned().chain(sessions.iter().map(file_of)) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let stale = || stale(folder.path(), &suite, &sessions, &files).unwrap();
        assert_eq!(stale(), Vec::<String>::new());
        let spoil = |path: &str, from: &str, to: &str| {
            let path = folder.path().join(path);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{from} in {text}");
            fs::write(path, text.replacen(from, to, 1)).unwrap();
        };
        spoil("keys.json", "\"slot\": 105", "\"slot\": 106");
        spoil("sessions/seed/02-mint.resp", "S :1", "S :2");
        fs::write(folder.path().join("sessions/seed/99-nothing.resp"), "").unwrap();
        let found = stale();
        assert_eq!(found.len(), 3, "{found:?}");
        for (line, start) in found.iter().zip(["keys.json", "02-mint", "sessions/seed/99"]) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}
