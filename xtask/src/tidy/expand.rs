//! Templates and parts: a line `-- @include name.lua` becomes the part's lines, as deep indented.

use std::collections::BTreeMap;

/// What a part's own comment lines start with: they are for who includes it, and not expanded.
const PART_NOTE: &str = "--!";
const INCLUDE: &str = "-- @include ";
/// A part may include parts; a cycle ends here.
const MAX_DEPTH: usize = 4;

/// Expands a template.
///
/// # Errors
/// A sentence: a part that doesn't exist, or parts that include each other too deep.
pub(super) fn expand(template: &str, parts: &BTreeMap<String, String>) -> Result<String, String> {
    let mut out = String::with_capacity(template.len() * 2);
    push(&mut out, template, "", parts, 0)?;
    Ok(out)
}

fn push(
    out: &mut String,
    text: &str,
    indent: &str,
    parts: &BTreeMap<String, String>,
    depth: usize,
) -> Result<(), String> {
    for line in text.lines().filter(|line| !line.starts_with(PART_NOTE)) {
        let code = line.trim_start();
        let Some(name) = code.strip_prefix(INCLUDE).map(str::trim_end) else {
            if !line.is_empty() {
                out.push_str(indent);
                out.push_str(line);
            }
            out.push('\n');
            continue;
        };
        let part = parts.get(name).ok_or_else(|| format!("no part lua/src/parts/{name}"))?;
        if depth == MAX_DEPTH {
            return Err(format!("parts include each other more than {MAX_DEPTH} deep at {name}"));
        }
        let own = &line[..line.len() - code.len()];
        push(out, part, &format!("{indent}{own}"), parts, depth + 1)?;
    }
    Ok(())
}

/// The parts that a text includes.
pub(super) fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim_start().strip_prefix(INCLUDE)).map(str::trim_end)
}
