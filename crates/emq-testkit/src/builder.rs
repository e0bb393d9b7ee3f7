//! How a server shall be, before it is started.

use crate::config::Settings;
use crate::{StartError, Valkey};

/// When an append-only server writes its file to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before each reply.
    Always,
    /// Once a second.
    EverySec,
    /// When the operating system likes.
    No,
}

impl Fsync {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySec => "everysec",
            Self::No => "no",
        }
    }
}

/// A server's settings; [`Builder::start`] starts it.
///
/// Without any setting the server is volatile (`save ""`, no append-only file), has no limit on
/// memory, no password, listens on a free port of 127.0.0.1 and allows `DEBUG`.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    pub(crate) settings: Settings,
    pub(crate) port: Option<u16>,
    pub(crate) unix_socket: bool,
    pub(crate) tcp: Tcp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tcp {
    #[default]
    On,
    Off,
}

impl Builder {
    /// At most this many bytes of memory; at the limit writes are refused (`noeviction`).
    pub fn maxmemory(mut self, bytes: u64) -> Self {
        self.settings.maxmemory = Some(bytes);
        self
    }

    /// Keep an append-only file, so that [`Valkey::restart`] and [`Valkey::start_again`] find the
    /// data again.
    pub fn append_only(mut self, fsync: Fsync) -> Self {
        self.settings.append_only = Some(fsync);
        self
    }

    /// The default user's password; [`Valkey::url`] carries it.
    pub fn requirepass(mut self, password: impl Into<String>) -> Self {
        self.settings.requirepass = Some(password.into());
        self
    }

    /// One more user, with the rules of `ACL SETUSER`: `acl_user("ann", "on >secret ~emq:* +@all")`.
    /// [`Valkey::url_as`] is the URL for that user.
    pub fn acl_user(mut self, name: impl Into<String>, rules: impl Into<String>) -> Self {
        self.settings.acl_users.push((name.into(), rules.into()));
        self
    }

    /// A further line of the server's configuration, as it would stand in the file.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.settings.extra.push(line.into());
        self
    }

    /// Whether to listen on a unix socket too: [`Valkey::unix_url`].
    pub fn unix_socket(mut self, yes: bool) -> Self {
        self.unix_socket = yes;
        self
    }

    /// Listen on a unix socket and on no port: [`Valkey::url`] is the socket's.
    pub fn unix_socket_only(mut self) -> Self {
        self.unix_socket = true;
        self.tcp = Tcp::Off;
        self
    }

    /// This port instead of a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// [`StartError`]: no server binary, a configuration that the server refuses, no free port.
    pub fn start(self) -> Result<Valkey, StartError> {
        Valkey::launch(&self)
    }
}
