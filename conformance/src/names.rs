//! The names that a contract uses for values: the queue, fresh ids, what was saved.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::contract::Arg;

/// 2024-01-01T00:00:00Z, where the time of ids starts.
const EPOCH_MS: u64 = 1_704_067_200_000;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Gives ids whose bytes sort in the order in which they were asked for.
#[derive(Debug)]
pub(crate) struct Minter {
    last: u64,
    live: bool,
    node: u64,
}

impl Minter {
    /// Ids of now, under a node taken at random.
    pub(crate) fn live() -> Self {
        Self { last: 0, live: true, node: fastrand::u64(..1024) }
    }

    /// The same ids in every run, for golden vectors.
    pub(crate) fn fixed() -> Self {
        Self { last: 60_000_000_000 << 22, live: false, node: 0 }
    }

    /// The next id of this kind.
    pub(crate) fn mint(&mut self, kind: &str) -> String {
        let now = if self.live { snowflake_now(self.node) } else { 0 };
        self.last = now.max(self.last + 1);
        let mut text = [b'0'; 11];
        let mut rest = self.last;
        for digit in text.iter_mut().rev() {
            *digit = DIGITS[(rest % 62) as usize];
            rest /= 62;
        }
        format!("{kind}{}", String::from_utf8_lossy(&text))
    }
}

fn snowflake_now(node: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(EPOCH_MS);
    (now_ms.saturating_sub(EPOCH_MS) << 22) | (node << 12)
}

/// The values by their names.
#[derive(Debug)]
pub(crate) struct Names {
    values: HashMap<String, Vec<u8>>,
    minter: Minter,
}

impl Names {
    /// The names that every contract has: `queue`, `base` and `wire`.
    pub(crate) fn new(queue: &str, wire: &str, minter: Minter) -> Self {
        let mut names = Self { values: HashMap::new(), minter };
        names.set("queue", queue.into());
        names.set("base", format!("emq:{{{queue}}}:").into());
        names.set("wire", wire.into());
        names
    }

    pub(crate) fn set(&mut self, name: &str, value: Vec<u8>) {
        self.values.insert(name.to_owned(), value);
    }

    /// Mints an id and names it.
    pub(crate) fn mint(&mut self, kind: &str, name: &str) {
        let id = self.minter.mint(kind);
        self.set(name, id.into_bytes());
    }

    /// A queue's key by its part after the base.
    pub(crate) fn key(&self, part: &str) -> Result<Vec<u8>, String> {
        self.fill(&format!("${{base}}{part}"))
    }

    /// The text with `${name}`, `${name+n}` and `${name-n}` replaced.
    pub(crate) fn fill(&self, text: &str) -> Result<Vec<u8>, String> {
        let mut filled = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, end) = after.split_once('}').ok_or("a ${ has no }")?;
            filled.extend_from_slice(before.as_bytes());
            filled.extend_from_slice(&self.value(inside)?);
            rest = end;
        }
        filled.extend_from_slice(rest.as_bytes());
        Ok(filled)
    }

    fn value(&self, inside: &str) -> Result<Vec<u8>, String> {
        let of =
            |name: &str| self.values.get(name).ok_or_else(|| format!("nothing is called {name:?}"));
        let Some(at) = inside.find(['+', '-']) else { return of(inside).cloned() };
        let (name, offset) = inside.split_at(at);
        let offset: i64 = offset.parse().map_err(|_| format!("no offset: {offset:?}"))?;
        Ok((integer(of(name)?)? + offset).to_string().into_bytes())
    }

    /// The bytes of each argument, in order.
    pub(crate) fn arguments(&mut self, args: &[Arg]) -> Result<Vec<Vec<u8>>, String> {
        let mut filled = Vec::with_capacity(args.len());
        for arg in args {
            match arg {
                Arg::Text(text) => filled.push(self.fill(text)?),
                Arg::Int(n) => filled.push(n.to_string().into_bytes()),
                Arg::Hex(bytes) => filled.push(unhex(&bytes.hex)?),
                Arg::Repeat(text) => filled.push(text.repeat.repeat(text.times).into_bytes()),
                Arg::Spread(many) => {
                    for _ in 0..many.times {
                        self.mint("JOB", "new");
                        filled.extend(self.arguments(&many.spread)?);
                    }
                }
            }
        }
        Ok(filled)
    }

    /// An argument that is a number.
    pub(crate) fn number(&self, arg: &Arg) -> Result<i64, String> {
        match arg {
            Arg::Int(n) => Ok(*n),
            Arg::Text(text) => integer(&self.fill(text)?),
            _ => Err("a number is expected".to_owned()),
        }
    }
}

fn integer(bytes: &[u8]) -> Result<i64, String> {
    let text = String::from_utf8_lossy(bytes);
    text.parse().map_err(|_| format!("no integer: {text:?}"))
}

/// Bytes from pairs of hexadecimal digits.
pub(crate) fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    pairs.map(|pair| byte(pair).ok_or_else(|| format!("no bytes: {text:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_values_and_moments_can_be_moved() {
        let mut names = Names::new("q", "w", Minter::fixed());
        names.set("t", b"1000".to_vec());
        assert_eq!(names.fill("${base}job:${t}!").unwrap(), b"emq:{q}:job:1000!");
        assert_eq!(names.fill("${t+5}/${t-1}").unwrap(), b"1005/999");
        assert!(names.fill("${nobody}").is_err());
        assert!(names.fill("${open").is_err());
    }

    #[test]
    fn ids_sort_as_they_were_minted() {
        for mut minter in [Minter::live(), Minter::fixed()] {
            let ids: Vec<_> = (0..5000).map(|_| minter.mint("JOB")).collect();
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(ids.iter().all(|id| id.len() == 14));
        }
    }
}
