//! Where a server is and as whom to talk to it.

use std::fmt::Write;
use std::path::PathBuf;

/// A server's place with the credentials for it. Its `Debug` says no password.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Address").field("place", &self.place).field("user", &self.user).finish()
    }
}

impl Address {
    pub(crate) fn new(place: Place, password: Option<String>) -> Self {
        Self { place, user: None, password, database: 0 }
    }

    /// Reads `valkey://[user[:password]@]host[:port][/db]` or
    /// `valkey+unix:///path[?user=..&password=..]`.
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
        match scheme {
            "valkey" | "redis" => Self::parse_tcp(rest),
            "valkey+unix" | "redis+unix" | "unix" => {
                if !rest.starts_with('/') {
                    return Err("the path of the socket is not absolute");
                }
                let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
                let place = Place::Unix(PathBuf::from(decode(path)?));
                let user = option(options, "user")?;
                let password = option(options, "password")?;
                Ok(Self { place, user, password, database: 0 })
            }
            _ => Err("its scheme is neither valkey nor valkey+unix"),
        }
    }

    fn parse_tcp(rest: &str) -> Result<Self, &'static str> {
        let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        let ((user, password), rest) = credentials(rest)?;
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.strip_prefix('[') {
            Some(v6) => {
                let (host, tail) = v6.split_once(']').ok_or("its IPv6 address is not closed")?;
                (host, tail.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err("it names no host");
        }
        let port = port.map_or(Ok(6379), |port| port.parse().map_err(|_| "its port is no port"))?;
        let database = match database {
            "" => 0,
            text => text.parse().map_err(|_| "its database is no number")?,
        };
        let place = Place::Tcp { host: host.to_owned(), port };
        Ok(Self { place, user, password, database })
    }

    pub(crate) fn url(&self) -> String {
        let mut credentials = String::new();
        if let Some(password) = &self.password {
            let user = encode(self.user.as_deref().unwrap_or(""));
            credentials = format!("{user}:{}@", encode(password));
        }
        let database = if self.database == 0 { String::new() } else { self.database.to_string() };
        match &self.place {
            Place::Tcp { host, port } => {
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                let slash = if database.is_empty() { "" } else { "/" };
                format!("valkey://{credentials}{host}:{port}{slash}{database}")
            }
            Place::Unix(path) => {
                // A path has no authority in front of it: credentials are options.
                let mut options = Vec::new();
                if let Some(user) = &self.user {
                    options.push(format!("user={}", encode(user)));
                }
                if let Some(password) = &self.password {
                    options.push(format!("password={}", encode(password)));
                }
                let mark = if options.is_empty() { "" } else { "?" };
                format!("valkey+unix://{}{mark}{}", path.display(), options.join("&"))
            }
        }
    }
}

type Credentials = (Option<String>, Option<String>);

/// Splits what stands before the last `@` of the authority.
fn credentials(rest: &str) -> Result<(Credentials, &str), &'static str> {
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let Some((before, _)) = authority.rsplit_once('@') else { return Ok(((None, None), rest)) };
    let after = &rest[before.len() + 1..];
    let (user, password) = before.split_once(':').ok_or("it has a user but no password")?;
    let user = Some(decode(user)?).filter(|user| !user.is_empty());
    Ok(((user, Some(decode(password)?)), after))
}

/// The value of an option behind the `?` of a URL.
fn option(options: &str, name: &str) -> Result<Option<String>, &'static str> {
    let mut pairs = options.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| decode(value)).transpose()
}

fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}"); // Writing to a String cannot fail.
        }
    }
    out
}

fn decode(text: &str) -> Result<String, &'static str> {
    const BAD: &str = "it has a broken %-escape";
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let digits = rest.split_at_checked(2).ok_or(BAD)?;
            let hex = std::str::from_utf8(digits.0).map_err(|_| BAD)?;
            if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(BAD);
            }
            bytes.push(u8::from_str_radix(hex, 16).map_err(|_| BAD)?);
            rest = digits.1;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 after %-decoding")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_round_trip() {
        for url in [
            "valkey://127.0.0.1:7000",
            "valkey://:p%40ss%2F@localhost:1",
            "valkey://ann:x%3Ay@[::1]:6379/3",
            "valkey+unix:///tmp/a/valkey.sock",
            "valkey+unix:///tmp/a/valkey.sock?user=u&password=p%40s",
        ] {
            assert_eq!(Address::parse(url).unwrap().url(), url);
        }
        let short = Address::parse("redis://host").unwrap();
        assert_eq!(short.place, Place::Tcp { host: "host".to_owned(), port: 6379 });
    }

    #[test]
    fn broken_urls_are_refused() {
        for url in ["host:1", "http://h", "valkey://", "valkey://h:x", "valkey://h/x", "unix://a"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
        assert!(Address::parse("valkey://:%+1@h").is_err());
        assert!(Address::parse("valkey://user@h").is_err());
    }

    #[test]
    fn debug_says_no_password() {
        let address = Address::parse("valkey://ann:secret@h").unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
