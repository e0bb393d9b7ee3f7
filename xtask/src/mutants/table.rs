//! The mutants, from the files in `tables/`.

use std::fs;

use crate::{Failure, Outcome, sh};

/// One script with one change.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    /// `complete/keeps-the-row`.
    pub(super) name: String,
    pub(super) script: String,
    from: String,
    to: String,
    /// Which of how many places.
    place: (usize, usize),
}

/// Every mutant.
pub(super) fn load() -> Result<Vec<Mutant>, Failure> {
    let root = sh::root();
    let mut files: Vec<_> = fs::read_dir(root.join("xtask/src/mutants/tables"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let mut mutants = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "toml")) {
        let text = fs::read_to_string(file)?;
        let found = parse(&text).map_err(|why| format!("{}: {why}", file.display()))?;
        mutants.extend(found);
    }
    Ok(mutants)
}

/// Fails unless each of these still finds its place in the bundle as it is.
pub(super) fn find_places(mutants: &[&Mutant]) -> Outcome {
    let lua = sh::root().join("lua");
    let fault = |mutant: &&Mutant| match fs::read_to_string(lua.join(mutant.file())) {
        Ok(text) => mutant.apply(&text).err(),
        Err(e) => Some(format!("{}: {e}", mutant.name)),
    };
    let faults: Vec<String> = mutants.iter().filter_map(fault).collect();
    match faults.as_slice() {
        [] => Ok(()),
        faults => Err(format!("let the mutants follow the scripts:\n{}", faults.join("\n")).into()),
    }
}

/// The mutants of one table: `[script]`, then `name = [from, to]` or `[from, to, "2 of 3"]`.
pub(super) fn parse(text: &str) -> Result<Vec<Mutant>, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let mut mutants = Vec::new();
    for (script, changes) in &table {
        let changes = changes.as_table().ok_or_else(|| format!("{script} is no table"))?;
        for (name, change) in changes {
            let name = format!("{script}/{name}");
            let words: Option<Vec<&str>> =
                change.as_array().and_then(|words| words.iter().map(toml::Value::as_str).collect());
            let (from, to, place) = match words.as_deref() {
                Some([from, to]) => (*from, *to, Some((1, 1))),
                Some([from, to, place]) => (*from, *to, place_of(place)),
                _ => return Err(format!("{name} is [from, to] or [from, to, place]")),
            };
            let place = place.ok_or_else(|| format!("{name}: a place is \"1 of 2\""))?;
            let (from, to) = (from.to_owned(), to.to_owned());
            mutants.push(Mutant { name, script: script.clone(), from, to, place });
        }
    }
    Ok(mutants)
}

fn place_of(text: &str) -> Option<(usize, usize)> {
    let (which, of) = text.split_once(" of ")?;
    let (which, of) = (which.parse().ok()?, of.parse().ok()?);
    (1 <= which && which <= of).then_some((which, of))
}

impl Mutant {
    pub(super) fn file(&self) -> String {
        format!("{}.lua", self.script)
    }

    /// The script with this change.
    pub(super) fn apply(&self, text: &str) -> Result<String, String> {
        let (which, of) = self.place;
        let places: Vec<usize> = text.match_indices(&self.from).map(|(at, _)| at).collect();
        if places.len() != of || self.from.is_empty() {
            let (name, found) = (&self.name, places.len());
            return Err(format!("{name}: `{}` stands {found} times, not {of}", self.from));
        }
        let (before, rest) = text.split_at(places[which - 1]);
        let changed = format!("{before}{}{}", self.to, &rest[self.from.len()..]);
        if changed == text { Err(format!("{}: changes nothing", self.name)) } else { Ok(changed) }
    }

    /// What is changed, on one line.
    pub(super) fn change(&self) -> String {
        let short = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("`{}` -> `{}`", short(&self.from), short(&self.to))
    }
}
