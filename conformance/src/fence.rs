//! The fence, as any port has to pass it before its first command.

use emq_wire::Reply;

use crate::Failure;
use crate::bundle::Bundle;
use crate::link::Link;

const VERSION: &str = "{emq}:version";
/// The oldest Valkey that the bundle runs on.
const FLOOR: [u32; 2] = [7, 2];

/// Claims the keyspace or finds it claimed for the same version, judges the engine, and loads the
/// bundle.
pub(crate) fn pass(link: &mut Link, bundle: &Bundle) -> Result<(), Failure> {
    version(link, &bundle.wire)?;
    engine(link)?;
    for script in &bundle.scripts {
        let loaded = link.must(&[b"SCRIPT", &b"LOAD"[..], &script.source])?;
        if loaded.as_bytes().is_none_or(|sha1| sha1[..] != *script.sha1.as_bytes()) {
            let name = &script.name;
            return Err(Failure::Bundle(format!("the server has another digest of {name}")));
        }
    }
    Ok(())
}

/// A full server refuses SET even where the key is there, so it is only tried where it isn't.
fn version(link: &mut Link, wire: &str) -> Result<(), Failure> {
    let mut found = link.aside(&["GET", VERSION])?;
    if found.is_nil() {
        link.must(&["SET", VERSION, wire, "NX"])?;
        found = link.aside(&["GET", VERSION])?;
    }
    let found = match &found {
        Reply::Bulk(found) if found[..] == *wire.as_bytes() => return Ok(()),
        Reply::Bulk(found) => String::from_utf8_lossy(found).chars().take(64).collect(),
        Reply::Error(error) if error.is("WRONGTYPE") => "no string".to_owned(),
        Reply::Error(error) => return Err(Failure::shape(&error.message())),
        _ => "nothing".to_owned(),
    };
    Err(Failure::FenceVersion { expected: wire.to_owned(), found })
}

fn engine(link: &mut Link) -> Result<(), Failure> {
    let info = link.must(&["INFO", "server"])?;
    let info = info.as_bytes().map(|info| String::from_utf8_lossy(info).into_owned());
    let info = info.unwrap_or_default();
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let name = field("server_name").unwrap_or("redis");
    let version = field("valkey_version").or_else(|| field("redis_version")).unwrap_or("0");
    let mode = field("server_mode").or_else(|| field("redis_mode"));
    if mode == Some("cluster") {
        return Err(Failure::FenceEngine("a cluster".to_owned()));
    }
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    if name != "valkey" || numbers.get(..2).is_none_or(|found| found < &FLOOR[..]) {
        return Err(Failure::FenceEngine(format!("{name} {version}")));
    }
    Ok(())
}
