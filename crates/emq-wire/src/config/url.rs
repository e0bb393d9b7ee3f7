//! One URL for everything that a connection needs to know.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::{Address, Config, ConfigError, Credentials, Protocol};

const DEFAULT_PORT: u16 = 6379;

/// What a scheme leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Tcp,
    Tls,
    Unix,
}

impl FromStr for Config {
    type Err = ConfigError;

    /// Reads `valkey://[user[:password]@]host[:port][/db][?options]`, `valkeys://` for TLS, or
    /// `valkey+unix:///path[?db=N&user=..&password=..]`. The schemes `redis`, `rediss`,
    /// `redis+unix` and `unix` mean the same.
    ///
    /// Options: `protocol=2|3|auto`, `client_name=`, `connect_timeout_ms=`,
    /// `response_timeout_ms=`, `heartbeat_ms=`, `max_in_flight=`. Reserved characters of a user,
    /// a password or a value are percent-encoded.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let url = Url::parse(text).map_err(|error| {
            // The parser's own words never repeat the input.
            ConfigError::Url { reason: error.to_string() }
        })?;
        let transport = transport_of(url.scheme())?;
        refuse_stray_secrets(&url)?;
        let mut config = match transport {
            Transport::Unix => unix(&url)?,
            Transport::Tcp | Transport::Tls => network(&url, transport)?,
        };
        apply_options(&mut config, &url, transport)?;
        config.validate_bounds()?;
        Ok(config)
    }
}

fn transport_of(scheme: &str) -> Result<Transport, ConfigError> {
    match scheme {
        "valkey" | "redis" => Ok(Transport::Tcp),
        "valkeys" | "rediss" => Ok(Transport::Tls),
        "valkey+unix" | "redis+unix" | "unix" => Ok(Transport::Unix),
        // `Url` accepts any word before a colon, so `user:secret@host` has the scheme `user`.
        _ => Err(ConfigError::Scheme),
    }
}

/// A `/`, `?` or `#` inside a password that wasn't encoded ends the authority early: the rest of
/// the secret, up to its `@`, would be taken for a path or an option and shown in an error.
fn refuse_stray_secrets(url: &Url) -> Result<(), ConfigError> {
    let tail = [Some(url.path()), url.query(), url.fragment()];
    if tail.into_iter().flatten().any(|part| part.contains('@')) {
        return Err(ConfigError::StrayAt);
    }
    if url.fragment().is_some() {
        return Err(ConfigError::Fragment);
    }
    Ok(())
}

fn network(url: &Url, transport: Transport) -> Result<Config, ConfigError> {
    let host = match url.host() {
        None => return Err(ConfigError::MissingHost),
        Some(Host::Domain(name)) => decoded(name, "host")?,
        Some(Host::Ipv4(ip)) => ip.to_string(),
        Some(Host::Ipv6(ip)) => ip.to_string(),
    };
    let port = url.port().unwrap_or(DEFAULT_PORT);
    let address = match transport {
        Transport::Tls => Address::Tls { host, port },
        Transport::Tcp | Transport::Unix => Address::Tcp { host, port },
    };
    let mut config = Config::new(address);
    let user = decoded(url.username(), "user")?;
    config.credentials = match url.password() {
        Some(password) => credentials(user, decoded(password, "password")?),
        None if user.is_empty() => None,
        None => return Err(ConfigError::UserWithoutPassword),
    };
    if let Some(database) = url.path().strip_prefix('/').filter(|path| !path.is_empty()) {
        config.database = database.parse().map_err(|_| ConfigError::Database)?;
    }
    Ok(config)
}

fn unix(url: &Url) -> Result<Config, ConfigError> {
    if url.has_host() && url.host_str() != Some("") {
        return Err(ConfigError::UnixHost);
    }
    let path = decoded(url.path(), "path")?;
    if !path.starts_with('/') || path == "/" {
        return Err(ConfigError::UnixPath);
    }
    Ok(Config::new(Address::Unix(path.into())))
}

/// An empty user is the default user.
fn credentials(user: String, password: String) -> Option<Credentials> {
    let named = !user.is_empty();
    Some(if named { Credentials::new(user, password) } else { Credentials::password(password) })
}

fn apply_options(config: &mut Config, url: &Url, transport: Transport) -> Result<(), ConfigError> {
    let (mut user, mut password) = (None, None);
    let mut seen = HashSet::new();
    let pairs = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name, "option")?, decoded(value, "option")?);
        if !seen.insert(name.clone()) {
            return Err(ConfigError::RepeatedOption { name });
        }
        let option = Value { name: &name, text: &value };
        match (name.as_str(), transport) {
            ("protocol", _) => config.protocol = option.protocol()?,
            ("client_name", _) => config.client_name = Some(value),
            ("connect_timeout_ms", _) => config.connect_timeout = option.duration()?,
            ("response_timeout_ms", _) => config.response_timeout = Some(option.duration()?),
            ("heartbeat_ms", _) => config.heartbeat = option.duration()?,
            ("max_in_flight", _) => config.max_in_flight = option.number("a whole number")?,
            ("db", Transport::Unix) => {
                config.database = value.parse().map_err(|_| ConfigError::Database)?;
            }
            ("user", Transport::Unix) => user = Some(value),
            ("password", Transport::Unix) => password = Some(value),
            _ => return Err(ConfigError::UnknownOption { name }),
        }
    }
    match (user, password) {
        (None, None) => {}
        (user, Some(password)) => {
            config.credentials = credentials(user.unwrap_or_default(), password);
        }
        (Some(_), None) => return Err(ConfigError::UserWithoutPassword),
    }
    Ok(())
}

/// The value of one option. Errors name the option and what it should be, never the value.
struct Value<'a> {
    name: &'a str,
    text: &'a str,
}

impl Value<'_> {
    fn protocol(&self) -> Result<Protocol, ConfigError> {
        match self.text {
            "2" => Ok(Protocol::Resp2),
            "3" => Ok(Protocol::Resp3),
            "auto" => Ok(Protocol::Auto),
            _ => Err(self.bad("2, 3 or auto")),
        }
    }

    fn duration(&self) -> Result<Duration, ConfigError> {
        self.number("a whole number of milliseconds").map(Duration::from_millis)
    }

    fn number<N: FromStr>(&self, wanted: &'static str) -> Result<N, ConfigError> {
        // `FromStr` of integers accepts a plus sign.
        let digits = self.text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits { self.text.parse().ok() } else { None };
        number.ok_or_else(|| self.bad(wanted))
    }

    fn bad(&self, wanted: &'static str) -> ConfigError {
        ConfigError::OptionValue { name: self.name.to_owned(), wanted }
    }
}

fn decoded(text: &str, part: &'static str) -> Result<String, ConfigError> {
    let text =
        percent_decode_str(text).decode_utf8().map_err(|_| ConfigError::Encoding { part })?;
    Ok(text.into_owned())
}

/// Shows the address and nothing of the credentials.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.database != 0 {
            write!(f, " database {}", self.database)?;
        }
        Ok(())
    }
}
