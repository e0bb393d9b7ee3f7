//! The header of a script, parsed: what it says of keys, arguments, clock, replies and refusals.

/// The only shebang there is: the script also runs on a full server.
pub(crate) const ALLOW_OOM: &str = "#!lua flags=allow-oom";

/// A header, as written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) allow_oom: bool,
    pub(crate) sentence: String,
    pub(crate) keys: Vec<Named>,
    pub(crate) args: Vec<Named>,
    /// The name of what may follow the fixed arguments.
    pub(crate) tail: Option<String>,
    /// What is said of it.
    pub(crate) tail_note: String,
    pub(crate) derived: Vec<String>,
    pub(crate) clock: String,
    pub(crate) returns: String,
    pub(crate) refuses: Vec<String>,
    pub(crate) leaves: String,
    /// How many lines it has, shebang included.
    pub(crate) lines: usize,
}

/// A key or an argument: its name and what is said of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) note: String,
}

/// The tags, in the order in which they must come.
const TAGS: [&str; 7] = ["KEYS", "ARGV", "DERIVED", "CLOCK", "RETURNS", "REFUSES", "LEAVES"];

impl Header {
    /// Parses the comment that a script starts with.
    ///
    /// # Errors
    /// A sentence that names what is malformed.
    pub(crate) fn parse(text: &str) -> Result<Header, String> {
        let mut header = Header::default();
        let mut lines = text.lines().peekable();
        if let Some(shebang) = lines.next_if(|line| line.starts_with("#!")) {
            if shebang != ALLOW_OOM {
                return Err(format!(
                    "the shebang is `{shebang}`; it must be `{ALLOW_OOM}` or none"
                ));
            }
            header.allow_oom = true;
            header.lines = 1;
        }
        let mut entries: Vec<String> = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("--")) {
            header.lines += 1;
            match line.strip_prefix("--  ") {
                Some(more) => {
                    let entry =
                        entries.last_mut().ok_or("the header starts with a continuation")?;
                    entry.push(' ');
                    entry.push_str(more.trim());
                }
                None => entries.push(line[2..].trim().to_owned()),
            }
        }
        let mut entries = entries.into_iter();
        header.sentence = entries.next().unwrap_or_default();
        if header.sentence.is_empty() || !header.sentence.ends_with('.') {
            return Err("the header must start with one sentence, with its full stop".into());
        }
        let mut stage = 0;
        for entry in entries {
            let (word, rest) = entry.split_once(' ').unwrap_or((&entry, ""));
            let tag = word.split_once('[').map_or(word, |(tag, _)| tag);
            let place = TAGS.iter().position(|known| *known == tag);
            let place = place.ok_or_else(|| format!("`{word}` is no tag of a header"))?;
            if place < stage {
                return Err(format!("{tag} comes after {}", TAGS[stage]));
            }
            stage = place;
            header.take(tag, word, rest.trim())?;
        }
        header.finish()
    }

    fn take(&mut self, tag: &str, word: &str, rest: &str) -> Result<(), String> {
        match tag {
            "KEYS" => {
                expect(word, &format!("KEYS[{}]", self.keys.len() + 1))?;
                self.keys.push(Named::parse(rest));
            }
            "ARGV" => {
                let next = self.args.len() + 1;
                if self.tail.is_some() {
                    return Err(format!("{word} comes after the arguments without a count"));
                }
                if word == format!("ARGV[{next}..]") {
                    let Named { name, note } = Named::parse(rest);
                    (self.tail, self.tail_note) = (Some(name), note);
                } else {
                    expect(word, &format!("ARGV[{next}]"))?;
                    self.args.push(Named::parse(rest));
                }
            }
            "DERIVED" => self.derived.push(Named::parse(rest).name),
            "CLOCK" => once(&mut self.clock, tag, rest)?,
            "RETURNS" => once(&mut self.returns, tag, rest)?,
            "REFUSES" if self.refuses.is_empty() => {
                self.refuses = rest.split_whitespace().map(str::to_owned).collect();
            }
            "LEAVES" => once(&mut self.leaves, tag, rest)?,
            _ => return Err(format!("{tag} comes twice")),
        }
        Ok(())
    }

    fn finish(self) -> Result<Header, String> {
        let missing = [
            ("CLOCK", self.clock.is_empty()),
            ("RETURNS", self.returns.is_empty()),
            ("REFUSES", self.refuses.is_empty()),
            ("LEAVES", self.leaves.is_empty()),
            ("KEYS", self.keys.is_empty()),
        ];
        match missing.iter().find(|(_, missing)| *missing) {
            Some((tag, _)) => Err(format!("the header has no {tag}")),
            None => Ok(self),
        }
    }
}

impl Named {
    fn parse(rest: &str) -> Named {
        let (name, note) = rest.split_once(' ').unwrap_or((rest, ""));
        Named { name: name.to_owned(), note: note.trim().to_owned() }
    }
}

fn expect(word: &str, expected: &str) -> Result<(), String> {
    if word == expected { Ok(()) } else { Err(format!("{word} stands where {expected} belongs")) }
}

fn once(place: &mut String, tag: &str, rest: &str) -> Result<(), String> {
    if !place.is_empty() {
        return Err(format!("{tag} comes twice"));
    }
    rest.clone_into(place);
    Ok(())
}
