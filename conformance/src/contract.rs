//! A contract as its file says it, parsed once: what can't be driven isn't loaded.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::expect::Expect;
use crate::{Failure, Set};

/// One contract: why it holds, and the steps that show it.
#[derive(Debug)]
pub struct Contract {
    /// Its place in its set, from the file's name.
    pub number: u32,
    /// Its name, the same as the file's.
    pub name: String,
    /// The rule that it shows, in a sentence.
    pub why: String,
    /// Whether it changes facts of the whole server.
    pub needs_own_server: bool,
    /// Whether its session is among the golden vectors.
    pub recorded: bool,
    pub(crate) ids: Vec<(String, String)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) finally: Vec<Vec<Arg>>,
}

/// One step: what it says, what is done, and what that leaves.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) says: String,
    pub(crate) act: Act,
    /// Keys, by their part after the queue's base, and what they must hold afterwards.
    pub(crate) leaves: Vec<(String, Expect)>,
}

/// What a step does.
#[derive(Debug)]
pub(crate) enum Act {
    /// Calls a script of the bundle.
    Script { name: String, args: Vec<Arg>, cold: bool, answer: Answer },
    /// Sends a command as it stands.
    Command { words: Vec<Arg>, answer: Answer },
    /// Saves the server's time in milliseconds.
    Clock(String),
    /// Waits until the server's time is past this.
    WaitPast(Arg),
    /// Passes the fence on a connection of its own: the version found when it must be refused.
    Fence { found: Option<String> },
    /// Only looks.
    Look,
}

/// What must be answered, and what of it later steps use.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) expect: Expect,
    /// Names, and the path to the value inside the reply.
    pub(crate) save: Vec<(String, Vec<usize>)>,
}

/// One argument, or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Arg {
    /// Text in which `${name}` stands for a value.
    Text(String),
    /// A number, sent in decimal.
    Int(i64),
    /// Any bytes.
    Hex(Hex),
    /// A text many times over, as one argument.
    Repeat(Repeat),
    /// Several arguments many times over; `${new}` is a fresh job's id each time.
    Spread(Spread),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hex {
    pub(crate) hex: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeat {
    pub(crate) repeat: String,
    pub(crate) times: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    pub(crate) spread: Vec<Arg>,
    pub(crate) times: usize,
}

/// The file, field by field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawContract {
    name: String,
    why: String,
    #[serde(default)]
    needs: Option<String>,
    #[serde(default)]
    not_recorded: Option<String>,
    #[serde(default)]
    ids: Vec<String>,
    steps: Vec<RawStep>,
    #[serde(default)]
    finally: Vec<Vec<Arg>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    says: String,
    script: Option<String>,
    args: Option<Vec<Arg>>,
    #[serde(default)]
    cold_script_cache: bool,
    command: Option<Vec<Arg>>,
    clock: Option<String>,
    wait_past: Option<Arg>,
    fence: Option<RawFence>,
    // The outer one tells `null`, which must be answered, from no expectation.
    #[serde(default, deserialize_with = "present")]
    expect: Option<Value>,
    #[serde(default)]
    save: serde_json::Map<String, Value>,
    #[serde(default)]
    leaves: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawFence {
    Passes(String),
    Refuses { refuses: String },
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Contract {
    /// All contracts of a set, in order.
    ///
    /// # Errors
    /// [`Failure::Contract`] names the file that is missing or isn't a contract.
    pub fn load(home: &Path, set: Set) -> Result<Vec<Self>, Failure> {
        let folder = home.join(set.folder());
        let at = |why: String| Failure::Contract { file: folder.display().to_string(), why };
        let mut files = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|e| at(e.to_string()))? {
            files.push(entry.map_err(|e| at(e.to_string()))?.path());
        }
        files.retain(|file| file.extension().is_some_and(|end| end == "json"));
        files.sort();
        files.iter().map(|file| Self::read(file)).collect()
    }

    fn read(file: &Path) -> Result<Self, Failure> {
        let at = |why: String| Failure::Contract { file: file.display().to_string(), why };
        let text = fs::read_to_string(file).map_err(|e| at(e.to_string()))?;
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        Self::parse(stem, &text).map_err(at)
    }

    /// Parses the text of the file `<number>-<name>.json`.
    pub(crate) fn parse(stem: &str, text: &str) -> Result<Self, String> {
        let raw: RawContract = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let (number, name) = stem.split_once('-').ok_or("a file is <number>-<name>.json")?;
        let number = number.parse().map_err(|_| "a file's name starts with its number")?;
        if raw.name != name {
            return Err(format!("the contract {:?} is in the file of {name:?}", raw.name));
        }
        let needs_own_server = match raw.needs.as_deref() {
            None => false,
            Some("own_server") => true,
            Some(other) => return Err(format!("nobody knows what it is to need {other:?}")),
        };
        let id = |text: String| match text.split_once(' ') {
            Some((kind, name)) if kind.len() == 3 => Ok((kind.to_owned(), name.to_owned())),
            _ => Err(format!("an id is declared as \"JOB name\", not {text:?}")),
        };
        let numbered = |(n, step): (usize, RawStep)| {
            step.parse().map_err(|why| format!("step {}: {why}", n + 1))
        };
        Ok(Self {
            number,
            name: raw.name,
            why: raw.why,
            needs_own_server,
            recorded: !needs_own_server && raw.not_recorded.is_none(),
            ids: raw.ids.into_iter().map(id).collect::<Result<_, _>>()?,
            steps: raw.steps.into_iter().enumerate().map(numbered).collect::<Result<_, _>>()?,
            finally: raw.finally,
        })
    }
}

impl RawStep {
    fn parse(self) -> Result<Step, String> {
        let acts = [
            self.script.is_some(),
            self.command.is_some(),
            self.clock.is_some(),
            self.wait_past.is_some(),
            self.fence.is_some(),
        ];
        if acts.into_iter().filter(|is| *is).count() > 1 {
            return Err("a step does one thing".to_owned());
        }
        if self.args.is_some() != self.script.is_some() {
            return Err("a script has args, and nothing else has".to_owned());
        }
        let mut leaves = Vec::new();
        for (key, expected) in self.leaves {
            let expected = Expect::of_key(&key, &expected)?;
            leaves.push((key, expected));
        }
        let answer = |expect: Option<Value>| {
            let expect = expect.ok_or("what is sent has an expect")?;
            let mut save = Vec::new();
            for (name, path) in &self.save {
                let path = serde_json::from_value(path.clone());
                save.push((name.clone(), path.map_err(|_| "a path is a list of places")?));
            }
            Ok::<_, String>(Answer { expect: Expect::parse(&expect)?, save })
        };
        let act = if let Some(name) = self.script {
            let (args, cold) = (self.args.unwrap_or_default(), self.cold_script_cache);
            Act::Script { name, args, cold, answer: answer(self.expect)? }
        } else if let Some(words) = self.command {
            Act::Command { words, answer: answer(self.expect)? }
        } else if self.expect.is_some() {
            return Err("only what is sent has an expect".to_owned());
        } else if let Some(name) = self.clock {
            Act::Clock(name)
        } else if let Some(moment) = self.wait_past {
            Act::WaitPast(moment)
        } else {
            match self.fence {
                None if leaves.is_empty() => return Err("a step does something".to_owned()),
                None => Act::Look,
                Some(RawFence::Refuses { refuses }) => Act::Fence { found: Some(refuses) },
                Some(RawFence::Passes(word)) if word == "passes" => Act::Fence { found: None },
                Some(RawFence::Passes(word)) => {
                    return Err(format!("a fence passes or refuses, not {word:?}"));
                }
            }
        };
        Ok(Step { says: self.says, act, leaves })
    }
}
