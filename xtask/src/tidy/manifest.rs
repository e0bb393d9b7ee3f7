//! `lua/manifest.toml`: the wire version, the revision, and each script's file, SHA-1 and counts.

use std::fmt::Write as _;

use emq_scripts::WIRE_VERSION;
use sha1::{Digest, Sha1};

use super::bundle::Expected;

/// The manifest as it must be.
pub(super) fn render(rev: u32, scripts: &[(&Expected, &str)]) -> String {
    let mut out = format!("wire = \"{WIRE_VERSION}\"\nrev = {rev}\n");
    for (expected, text) in scripts {
        let name = &expected.name;
        let _ = write!(
            out,
            "\n[[scripts]]\nname = \"{name}\"\nfile = \"{name}.lua\"\nsha1 = \"{}\"\n\
             keys = {}\nargs = {}\nrest = {}\n",
            sha1_of(text),
            expected.keys.len(),
            expected.args.len(),
            expected.tail.is_some(),
        );
    }
    out
}

/// The revision that a manifest states.
pub(super) fn rev_of(text: &str) -> Option<u32> {
    let table: toml::Table = text.parse().ok()?;
    table.get("rev")?.as_integer()?.try_into().ok()
}

/// The digest by which a server knows a script.
fn sha1_of(text: &str) -> String {
    let mut hex = String::with_capacity(40);
    for byte in Sha1::digest(text.as_bytes()) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
