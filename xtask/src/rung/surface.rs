//! What a chapter's public surface is, checked by the compiler and against the crate's exports.

use std::collections::BTreeSet;

use crate::{Failure, sh};

/// The names of the given functions: each must exist and be public for this to compile.
macro_rules! verbs {
    ($($verb:expr),* $(,)?) => {{
        $(let _ = $verb;)*
        vec![$(stringify!($verb)),*]
    }};
}
pub(super) use verbs;

/// Names that belong to the layers below and that emq-core must not re-export.
const PRIVATE: &[&str] = &[
    "Bundle",
    "ScriptName",
    "ScriptCall",
    "Script",
    "Contract",
    "CONTRACTS",
    "Fenced",
    "QueueKeys",
    "QueueFact",
    "Key",
    "Cmd",
    "Pipeline",
    "Reply",
];

/// How many names of scripts and keys emq-core keeps to itself.
///
/// # Errors
/// Names the first one that it exports.
pub(super) fn private_names() -> Result<usize, Failure> {
    let source = std::fs::read_to_string(sh::root().join("crates/emq-core/src/lib.rs"))?;
    let exports: Vec<&str> = source
        .split("pub use ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next())
        .flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    if exports.is_empty() {
        return Err("emq-core exports nothing: this check reads the wrong file".into());
    }
    match PRIVATE.iter().find(|name| exports.contains(name)) {
        Some(name) => Err(format!("emq-core exports {name}").into()),
        None => Ok(PRIVATE.len()),
    }
}

/// The names of the public functions in a file's `impl` blocks that begin with `head`, sorted.
///
/// # Errors
/// There is no such block.
pub(super) fn public_functions(path: &str, head: &str) -> Result<BTreeSet<String>, Failure> {
    let source = std::fs::read_to_string(sh::root().join(path))?;
    let mut names = BTreeSet::new();
    let mut inside = false;
    for line in source.lines() {
        match line {
            "}" => inside = false,
            line if line.starts_with(head) => inside = true,
            line if inside => names.extend(public_function(line)),
            _ => {}
        }
    }
    if names.is_empty() {
        return Err(format!("{path} has no public function in {head}: it is the wrong file").into());
    }
    Ok(names)
}

/// The name of the public function that a line of an `impl` block begins.
fn public_function(line: &str) -> Option<String> {
    let line = line.strip_prefix("    pub ")?;
    let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    Some(line.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_owned())
}
