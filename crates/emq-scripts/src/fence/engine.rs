//! Which server answers, and whether it is one that the bundle runs on.

use std::fmt;

use super::error::FenceError;

/// The oldest Valkey that the bundle runs on.
const VALKEY_FLOOR: EngineVersion = EngineVersion { major: 7, minor: 2, patch: 0 };
/// The oldest Redis, where a caller allows it.
const REDIS_FLOOR: EngineVersion = EngineVersion { major: 7, minor: 0, patch: 0 };

/// The server behind the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// `valkey`, or what a compatible server calls itself.
    pub name: String,
    /// Its version.
    pub version: EngineVersion,
}

/// A server's version. What follows the three numbers, a `-rc1` for instance, is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EngineVersion {
    /// The first number.
    pub major: u16,
    /// The second.
    pub minor: u16,
    /// The third.
    pub patch: u16,
}

impl fmt::Display for EngineVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

impl Engine {
    /// Whether this is Valkey itself.
    #[must_use]
    pub fn is_valkey(&self) -> bool {
        self.name == "valkey"
    }

    /// Reads `INFO server` and judges it.
    pub(super) fn admit(info: &str, allow_compatible: bool) -> Result<Engine, FenceError> {
        if field(info, "server_mode").or_else(|| field(info, "redis_mode")) == Some("cluster")
            || field(info, "cluster_enabled") == Some("1")
        {
            return Err(FenceError::Cluster);
        }
        let engine = Engine::read(info);
        let floor = match &engine {
            Some(engine) if engine.is_valkey() => VALKEY_FLOOR,
            Some(_) if allow_compatible => REDIS_FLOOR,
            _ => return Err(refused(engine.as_ref(), info, allow_compatible)),
        };
        match engine {
            Some(engine) if engine.version >= floor => Ok(engine),
            old => Err(refused(old.as_ref(), info, allow_compatible)),
        }
    }

    /// A server without a name of its own is Redis, and so is what says nothing but Redis' version.
    fn read(info: &str) -> Option<Engine> {
        let name = field(info, "server_name").unwrap_or("redis").to_ascii_lowercase();
        let own = field(info, &format!("{name}_version"));
        let version = own.or_else(|| field(info, "redis_version").filter(|_| name != "valkey"))?;
        Some(Engine { name, version: parse_version(version)? })
    }
}

fn refused(engine: Option<&Engine>, info: &str, allow_compatible: bool) -> FenceError {
    let found = match engine {
        Some(engine) => engine.to_string(),
        None if info.is_empty() => "a server that says nothing of itself".to_owned(),
        None => "a server without a readable version".to_owned(),
    };
    let floor = if allow_compatible && engine.is_none_or(|engine| !engine.is_valkey()) {
        format!("valkey {VALKEY_FLOOR} or redis {REDIS_FLOOR}")
    } else {
        format!("valkey {VALKEY_FLOOR}")
    };
    FenceError::Engine { found, floor }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn parse_version(text: &str) -> Option<EngineVersion> {
    let mut numbers = text.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u16>().ok()
    });
    let major = numbers.next()??;
    let mut rest = || numbers.next().flatten().unwrap_or(0);
    Some(EngineVersion { major, minor: rest(), patch: rest() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALKEY: &str = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\n\
                          valkey_version:9.1.2\r\nserver_mode:standalone\r\n\
                          redis_mode:standalone\r\n";

    fn admit(info: &str, allow: bool) -> Result<String, FenceError> {
        Engine::admit(info, allow).map(|engine| engine.to_string())
    }

    fn floor_of(outcome: Result<String, FenceError>) -> (String, String) {
        match outcome {
            Err(FenceError::Engine { found, floor }) => (found, floor),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn valkey_from_its_floor_on_is_let_in() {
        assert_eq!(admit(VALKEY, false).unwrap(), "valkey 9.1.2");
        let floor = VALKEY.replace("9.1.2", "7.2.0-rc1");
        assert_eq!(admit(&floor, false).unwrap(), "valkey 7.2.0");
        for allow in [false, true] {
            let old = VALKEY.replace("9.1.2", "7.1.9");
            assert_eq!(floor_of(admit(&old, allow)).0, "valkey 7.1.9");
        }
    }

    #[test]
    fn redis_is_let_in_only_when_allowed_and_from_its_floor_on() {
        let redis = "redis_version:7.0.15\r\nredis_mode:standalone\r\n";
        let (found, floor) = floor_of(admit(redis, false));
        assert_eq!((found.as_str(), floor.as_str()), ("redis 7.0.15", "valkey 7.2.0"));
        assert_eq!(admit(redis, true).unwrap(), "redis 7.0.15");
        let (found, floor) = floor_of(admit("redis_version:6.2.14\r\n", true));
        assert_eq!(found, "redis 6.2.14");
        assert!(floor.contains("redis 7.0.0"), "{floor}");
    }

    #[test]
    fn another_name_keeps_its_name() {
        let info = "server_name:other\r\nredis_version:7.2.0\r\n";
        assert_eq!(floor_of(admit(info, false)).0, "other 7.2.0");
        assert_eq!(admit(info, true).unwrap(), "other 7.2.0");
    }

    #[test]
    fn a_cluster_is_refused_as_such_under_either_name_of_the_mode() {
        for mode in ["server_mode:cluster", "redis_mode:cluster", "cluster_enabled:1"] {
            let info = format!("redis_version:7.2.4\r\n{mode}\r\n");
            assert!(matches!(admit(&info, true), Err(FenceError::Cluster)), "{mode}");
        }
    }

    #[test]
    fn nonsense_is_an_engine_refusal_and_not_a_panic() {
        for info in ["", "server_name:valkey", "valkey_version:9", "redis_version:", ":::\n\n:"] {
            assert!(matches!(admit(info, true), Err(FenceError::Engine { .. })), "{info:?}");
        }
        for version in ["x", "99999.1.1", "-1.2"] {
            let info = VALKEY.replace("9.1.2", version);
            assert!(matches!(admit(&info, true), Err(FenceError::Engine { .. })), "{version}");
        }
    }
}
