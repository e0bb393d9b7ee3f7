//! Drives a contract: step by step, each answer compared with what is expected.

use std::thread;
use std::time::Duration;

use emq_wire::Reply;

use crate::bundle::Bundle;
use crate::contract::{Act, Answer, Contract, Step};
use crate::expect::{Expect, Reading, reading};
use crate::link::Link;
use crate::names::{Minter, Names};
use crate::sabotage::{Sabotage, spoil};
use crate::{Failure, fence};

/// The longest wait between two looks at the server's clock.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// One contract being driven.
pub(crate) struct Drive<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) bundle: &'a Bundle,
    /// Where another connection would go.
    pub(crate) url: &'a str,
    pub(crate) sabotage: Option<Sabotage>,
    names: Names,
    last_token: Vec<u8>,
}

/// Why a contract doesn't hold.
pub(crate) enum Broken {
    /// A step didn't answer what it must.
    Step { number: usize, says: String, why: String },
    /// The server can't be asked any more.
    Failed(Failure),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What a step found: `Err` in the inner place is what is wrong, in words.
type Found = Result<Result<(), String>, Failure>;

impl<'a> Drive<'a> {
    pub(crate) fn new(
        link: &'a mut Link,
        bundle: &'a Bundle,
        url: &'a str,
        queue: &str,
        minter: Minter,
    ) -> Self {
        let names = Names::new(queue, &bundle.wire, minter);
        Self { link, bundle, url, sabotage: None, names, last_token: b"1".to_vec() }
    }

    /// Runs the contract's steps and removes what they made. `after` sees each step that was done.
    pub(crate) fn run(
        &mut self,
        contract: &Contract,
        mut after: impl FnMut(usize, &mut Link),
    ) -> Result<(), Broken> {
        for (kind, name) in &contract.ids {
            self.names.mint(kind, name);
        }
        let mut verdict = Ok(());
        for (n, step) in contract.steps.iter().enumerate() {
            let found = self.step(step);
            after(n, self.link);
            let why = match found {
                Ok(Ok(())) => continue,
                Ok(Err(why)) => why,
                Err(failure) => return Err(failure.into()),
            };
            verdict = Err(Broken::Step { number: n + 1, says: step.says.clone(), why });
            break;
        }
        self.clean_up(contract)?;
        verdict
    }

    fn clean_up(&mut self, contract: &Contract) -> Result<(), Failure> {
        for words in &contract.finally {
            let words = self.names.arguments(words).map_err(|why| Failure::shape(&why))?;
            self.link.aside(&words)?;
        }
        let keys = self.keys_of_queue()?;
        if !keys.is_empty() {
            let mut words = vec![b"UNLINK".to_vec()];
            words.extend(keys);
            self.link.must(&words)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Found {
        let done = match &step.act {
            Act::Script { name, args, cold, answer } => {
                let args = match self.names.arguments(args) {
                    Ok(args) => args,
                    Err(why) => return Ok(Err(why)),
                };
                if *cold {
                    self.link.must(&["SCRIPT", "FLUSH"])?;
                }
                match self.script(name, args)? {
                    Ok(reply) => self.judge(&reply, answer),
                    Err(why) => Err(why),
                }
            }
            Act::Command { words, answer } => match self.names.arguments(words) {
                Ok(words) => {
                    let reply = self.link.call(&words)?;
                    self.judge(&reply, answer)
                }
                Err(why) => Err(why),
            },
            Act::Clock(name) => {
                let now = self.link.clock_ms()?;
                self.names.set(name, now.to_string().into_bytes());
                Ok(())
            }
            Act::WaitPast(moment) => match self.names.number(moment) {
                Ok(moment) => self.wait_past(moment).map(Ok)?,
                Err(why) => Err(why),
            },
            Act::Fence { found } => self.fence(found.as_deref())?,
            Act::Look => Ok(()),
        };
        match done {
            Ok(()) => self.look(&step.leaves),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Calls a script by its digest; a server that has lost it is given it again.
    fn script(
        &mut self,
        name: &str,
        mut args: Vec<Vec<u8>>,
    ) -> Result<Result<Reply, String>, Failure> {
        let bundle = self.bundle;
        let script = match bundle.script(name) {
            Ok(script) => script,
            Err(why) => return Ok(Err(why)),
        };
        let whole = |part: &String| match part.starts_with('{') {
            true => Ok(part.clone().into_bytes()),
            false => self.names.key(part),
        };
        let keys: Result<Vec<_>, String> = script.keys.iter().map(whole).collect();
        let mut keys = match keys {
            Ok(keys) => keys,
            Err(why) => return Ok(Err(why)),
        };
        if let Some(sabotage) = self.sabotage {
            spoil(sabotage, name, &script.keys, &mut keys, &mut args, &self.last_token);
        }
        let count = keys.len().to_string().into_bytes();
        let mut words = vec![b"EVALSHA".to_vec(), script.sha1.clone().into_bytes(), count];
        words.extend(keys);
        words.extend(args);
        let mut reply = self.link.call(&words)?;
        if reply.as_error().is_some_and(|error| error.is("NOSCRIPT")) {
            self.link.call(&[b"SCRIPT", &b"LOAD"[..], &script.source])?;
            reply = self.link.call(&words)?;
        }
        let claims = name == "claim" || name == "lane_claim";
        let token = reply.as_array().and_then(|job| job.get(2)?.as_int());
        if let Some(token) = token.filter(|_| claims) {
            self.last_token = token.to_string().into_bytes();
        }
        Ok(Ok(reply))
    }

    /// Compares an answer, and saves of it what later steps use.
    fn judge(&mut self, reply: &Reply, answer: &Answer) -> Result<(), String> {
        answer.expect.check(reply, &self.names)?;
        for (name, path) in &answer.save {
            let mut at = reply;
            for place in path {
                let items = at.as_array().and_then(|items| items.get(*place));
                at = items.ok_or_else(|| format!("nothing to save as {name:?}"))?;
            }
            let value = match (at.as_int(), at.as_bytes()) {
                (Some(n), _) => n.to_string().into_bytes(),
                (None, Some(bytes)) => bytes.to_vec(),
                _ => return Err(format!("nothing to save as {name:?}")),
            };
            self.names.set(name, value);
        }
        Ok(())
    }

    /// Only the server's clock decides; between two looks at it this sleeps.
    fn wait_past(&mut self, moment: i64) -> Result<(), Failure> {
        loop {
            let left = moment - self.link.clock_ms()?;
            if left < 0 {
                return Ok(());
            }
            let left = Duration::from_millis(left.unsigned_abs() + 1);
            thread::sleep(left.min(LOOK_AGAIN));
        }
    }

    fn fence(&self, must_find: Option<&str>) -> Found {
        let mut link = Link::open(self.url)?;
        let outcome = fence::pass(&mut link, self.bundle);
        Ok(match (outcome, must_find) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(found)) => Err(format!("passed a fence that holds {found:?}")),
            (Err(Failure::FenceVersion { expected, found }), Some(must))
                if expected == self.bundle.wire && found == must =>
            {
                Ok(())
            }
            (Err(failure), _) => Err(failure.to_string()),
        })
    }

    fn look(&mut self, leaves: &[(String, Expect)]) -> Found {
        for (part, expected) in leaves {
            let seen = match self.names.fill(part) {
                Ok(part) => self.content(&part)?,
                Err(why) => return Ok(Err(why)),
            };
            if let Err(why) = expected.check(&seen, &self.names) {
                return Ok(Err(format!("{part}: {why}")));
            }
        }
        Ok(Ok(()))
    }

    fn content(&mut self, part: &[u8]) -> Result<Reply, Failure> {
        let part = String::from_utf8_lossy(part).into_owned();
        let words: &[&str] = match reading(&part).map_err(|why| Failure::shape(&why))? {
            Reading::List => &["LRANGE", "", "0", "-1"],
            Reading::Count => &["LLEN", ""],
            Reading::Sorted => &["ZRANGE", "", "0", "-1"],
            Reading::Unordered => &["SMEMBERS", ""],
            Reading::Hash => &["HGETALL", ""],
            Reading::Keys => {
                let base = self.base()?.len();
                let parts = self.keys_of_queue()?.into_iter().map(|key| key[base..].to_vec());
                return Ok(Reply::Array(parts.map(|part| Reply::Bulk(part.into())).collect()));
            }
        };
        let key = self.names.key(&part).map_err(|why| Failure::shape(&why))?;
        let word = |word: &&str| if word.is_empty() { key.clone() } else { (*word).into() };
        let words: Vec<Vec<u8>> = words.iter().map(word).collect();
        self.link.call(&words)
    }

    fn base(&self) -> Result<Vec<u8>, Failure> {
        self.names.key("").map_err(|why| Failure::shape(&why))
    }

    fn keys_of_queue(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let pattern = [&self.base()?[..], b"*"].concat();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut cursor = b"0".to_vec();
        loop {
            let page =
                self.link.must(&[b"SCAN", &cursor[..], b"MATCH", &pattern, b"COUNT", b"1000"]);
            let page = page?;
            let Some([next, found]) = page.as_array() else {
                return Err(Failure::shape("SCAN answered no page"));
            };
            let found = found.as_array().unwrap_or_default().iter();
            keys.extend(found.filter_map(Reply::as_bytes).map(|key| key.to_vec()));
            cursor = next.as_bytes().map(|next| next.to_vec()).unwrap_or_default();
            if cursor == b"0" {
                keys.sort();
                keys.dedup();
                return Ok(keys);
            }
        }
    }
}
