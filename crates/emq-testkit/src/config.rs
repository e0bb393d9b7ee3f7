//! The configuration file that a server is started with.

use std::fmt::Write;
use std::path::Path;

use crate::Fsync;

/// What a caller may choose.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) maxmemory: Option<u64>,
    pub(crate) append_only: Option<Fsync>,
    pub(crate) requirepass: Option<String>,
    pub(crate) acl_users: Vec<(String, String)>,
    pub(crate) extra: Vec<String>,
}

/// Where the server listens and keeps its files.
pub(crate) struct Layout<'a> {
    pub(crate) bind: &'a str,
    /// 0 for no TCP.
    pub(crate) port: u16,
    pub(crate) unix_socket: Option<&'a Path>,
    /// `None` keeps the server's own working directory and its log on standard output.
    pub(crate) dir: Option<&'a Path>,
}

pub(crate) const LOG: &str = "valkey.log";

pub(crate) fn render(settings: &Settings, layout: &Layout<'_>) -> String {
    let mut lines = vec![
        format!("bind {}", layout.bind),
        format!("port {}", layout.port),
        "daemonize no".to_owned(),
        "loglevel notice".to_owned(),
        "protected-mode no".to_owned(),
        "enable-debug-command yes".to_owned(),
        "save \"\"".to_owned(),
    ];
    if let Some(dir) = layout.dir {
        lines.push(format!("dir {}", quote(&dir.to_string_lossy())));
        lines.push(format!("logfile {}", quote(&dir.join(LOG).to_string_lossy())));
    }
    if let Some(path) = layout.unix_socket {
        lines.push(format!("unixsocket {}", quote(&path.to_string_lossy())));
        lines.push("unixsocketperm 700".to_owned());
    }
    if let Some(bytes) = settings.maxmemory {
        lines.push(format!("maxmemory {bytes}"));
        lines.push("maxmemory-policy noeviction".to_owned());
    }
    if let Some(fsync) = settings.append_only {
        lines.push("appendonly yes".to_owned());
        lines.push(format!("appendfsync {}", fsync.name()));
    }
    if let Some(password) = &settings.requirepass {
        lines.push(format!("requirepass {}", quote(password)));
    }
    for (name, rules) in &settings.acl_users {
        lines.push(format!("user {} {rules}", quote(name)));
    }
    lines.extend(settings.extra.iter().cloned());
    lines.join("\n") + "\n"
}

/// A word as the server's configuration reader takes it whole, whatever is in it.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}"); // Writing to a String cannot fail.
            }
        }
    }
    out.push('"');
    out
}
