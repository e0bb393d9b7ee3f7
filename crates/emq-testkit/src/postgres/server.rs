//! The handle of a running PostgreSQL.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::admin;
use super::database::Database;
use super::files::{self, Runner};
use super::find::{PostgresPrograms, postgres_programs};
use crate::port::Port;
use crate::process::{Process, Program, STDIO, Started};
use crate::valkey::tally;
use crate::{AdminError, StartError};

/// How often a start is tried with another port when the first was lost to another program.
const PORT_TRIES: usize = 20;
/// How long a killed server's own children may take to see that, and a restart to have its port.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// A real PostgreSQL server, which ends when this value is dropped or its process dies.
///
/// It listens on a free port of 127.0.0.1, trusts whoever connects, and syncs what it commits. All
/// methods take `&self` and block.
#[derive(Debug)]
pub struct Postgres {
    /// `None` for a shared one.
    ground: Option<Mutex<Ground>>,
    url: String,
}

struct Ground {
    process: Process,
    data: PathBuf,
    port: Port,
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("port", &self.port).finish_non_exhaustive()
    }
}

/// A server's settings; [`PostgresBuilder::start`] starts it.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PostgresBuilder {
    settings: Vec<(String, String)>,
}

impl PostgresBuilder {
    /// A setting of the server: `setting("max_connections", "10")`.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Starts the server and waits until it takes connections.
    ///
    /// # Errors
    /// [`StartError`]: no programs, a setting that the server refuses, no free port.
    pub fn start(self) -> Result<Postgres, StartError> {
        let programs = postgres_programs()?;
        let runner = Runner::here();
        let dir = tempfile::Builder::new()
            .prefix("emq-postgres-")
            .tempdir_in(runner.temporary())
            .map_err(StartError::io("create a temporary directory"))?;
        runner.own(dir.path()).map_err(StartError::io("give a directory to PostgreSQL's user"))?;
        let data = dir.path().join("data");
        files::fill(&data, &programs, runner)?;
        let process = Process::new(dir, &program(&programs, &data, runner))?;
        self.launch(process, &data)
    }

    fn launch(&self, mut process: Process, data: &Path) -> Result<Postgres, StartError> {
        for _ in 0..PORT_TRIES {
            let port = Port::any()?;
            fs::write(data.join("postgresql.conf"), self.render(port.number))
                .map_err(StartError::io("write the server's configuration"))?;
            if matches!(process.start(ready(data, port.number))?, Started::Ready) {
                tally("postgres");
                let url = format!("postgres://postgres@127.0.0.1:{}/postgres", port.number);
                let ground = Ground { process, data: data.to_path_buf(), port };
                return Ok(Postgres { ground: Some(Mutex::new(ground)), url });
            }
        }
        Err(StartError::NoPort { detail: format!("lost {PORT_TRIES} to other programs") })
    }

    /// The last line of a setting counts, so a caller's own come last.
    fn render(&self, port: u16) -> String {
        let fixed = [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""),
            // Files of the directory, which go with it, and not segments, which stay after a kill.
            ("dynamic_shared_memory_type", "mmap"),
            ("fsync", "on"),
            ("lc_messages", "C"),
            ("max_connections", "100"),
        ];
        let fixed = fixed.iter().map(|(name, value)| setting(name, value));
        let own = self.settings.iter().map(|(name, value)| setting(name, value));
        fixed.chain([format!("port = {port}\n")]).chain(own).collect()
    }
}

fn setting(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\'', "''"))
}

fn program(programs: &PostgresPrograms, data: &Path, runner: Runner) -> Program {
    Program {
        command: vec![programs.postgres.clone().into(), "-D".into(), data.into()],
        log: STDIO,
        // Quit at once, its children first.
        farewell: "QUIT",
        user: runner.user(),
    }
}

/// The server notes in its own file that it is ready; a connection shows that it listens.
fn ready(data: &Path, port: u16) -> impl Fn(u32, &str) -> bool {
    let file = data.join("postmaster.pid");
    move |pid, _| {
        let noted = fs::read_to_string(&file).unwrap_or_default();
        let mut lines = noted.lines();
        lines.next() == Some(&pid.to_string())
            && lines.next_back().is_some_and(|state| state.trim_end() == "ready")
            && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
    }
}

impl Postgres {
    /// Starts a server of one's own on a free port.
    ///
    /// # Errors
    /// [`StartError::NoPostgres`] when the machine has none, with what to do about it.
    pub fn start() -> Result<Self, StartError> {
        Self::builder().start()
    }

    /// A server with settings.
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// The server that `EMQ_POSTGRES_URL` names, else one of one's own. It is for callers that
    /// keep to databases of their own ([`Postgres::database`]).
    ///
    /// # Errors
    /// As [`Postgres::start`]; and [`StartError::NoAnswerOfPostgres`] when `EMQ_POSTGRES_URL` is
    /// set but of no use.
    pub fn start_or_shared() -> Result<Self, StartError> {
        let Some(url) = env::var("EMQ_POSTGRES_URL").ok().filter(|url| !url.is_empty()) else {
            return Self::start();
        };
        admin::run(&url, "SELECT 1").map_err(StartError::NoAnswerOfPostgres)?;
        Ok(Self { ground: None, url })
    }

    /// One server for the whole process, started by the first who asks: as
    /// [`Postgres::start_or_shared`]. It ends with the process.
    ///
    /// # Panics
    /// When no server can be started; the message says what to do.
    #[must_use]
    pub fn of_this_process() -> &'static Self {
        static ONE: OnceLock<Postgres> = OnceLock::new();
        ONE.get_or_init(|| match Self::start_or_shared() {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        })
    }

    /// The URL of the database that administers the server.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// A new, empty database, which is removed when the value is dropped.
    ///
    /// # Errors
    /// [`AdminError::Sql`] when the server refuses.
    pub fn database(&self) -> Result<Database, AdminError> {
        Database::create(&self.url)
    }

    /// Runs one statement on a connection of its own, and answers its first column, one row a line.
    ///
    /// # Errors
    /// [`AdminError::Sql`] with what the server says.
    pub fn sql(&self, statement: &str) -> Result<String, AdminError> {
        admin::run(&self.url, statement)
    }

    /// The version, such as `16.14`, as the server says it.
    ///
    /// # Errors
    /// [`AdminError::Sql`] when the server doesn't answer.
    pub fn version(&self) -> Result<String, AdminError> {
        self.sql("SHOW server_version")
    }

    /// Whether this is the server of `EMQ_POSTGRES_URL`.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.ground.is_none()
    }

    /// The process id of the server; `None` when it doesn't run as a process of ours.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.ground().ok()?.process.pid()
    }

    /// Kills the server as a crash would (`SIGKILL`); it and its children are gone when this
    /// returns.
    ///
    /// # Errors
    /// [`AdminError::SharedPostgres`] for a server that isn't ours.
    pub fn kill9(&self) -> Result<(), AdminError> {
        let mut ground = self.ground()?;
        ground.process.kill().map_err(AdminError::Watchdog)?;
        let deadline = Instant::now() + GONE_WITHIN;
        // They see that their parent is gone, and end by themselves. Each works in that directory.
        while Instant::now() < deadline && works_in(&ground.data) {
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Starts the server again after [`Postgres::kill9`], with the same port and the same files.
    ///
    /// # Errors
    /// [`StartError::Running`] when it still runs.
    pub fn start_again(&self) -> Result<(), StartError> {
        let mut ground = self.ground().map_err(|_| StartError::Shared)?;
        let (data, number) = (ground.data.clone(), ground.port.number);
        let deadline = Instant::now() + GONE_WITHIN;
        loop {
            match ground.process.start(ready(&data, number))? {
                Started::Ready => return Ok(()),
                Started::PortLost if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(100));
                }
                Started::PortLost => {
                    let detail = format!("{number} was taken by another program");
                    return Err(StartError::NoPort { detail });
                }
            }
        }
    }

    /// Everything that the server wrote to its log; empty for a shared one.
    #[must_use]
    pub fn log(&self) -> String {
        self.ground().map(|ground| ground.process.log()).unwrap_or_default()
    }

    /// Ends the server and removes its files, as a drop does, and says whether that went well.
    ///
    /// # Errors
    /// [`AdminError::Watchdog`] when the watchdog can't be waited for.
    pub fn stop(self) -> Result<(), AdminError> {
        match self.ground() {
            Ok(mut ground) => ground.process.finish().map_err(AdminError::Watchdog),
            Err(_) => Ok(()),
        }
    }

    /// A test that panicked while it held the lock leaves nothing half-done in it.
    fn ground(&self) -> Result<MutexGuard<'_, Ground>, AdminError> {
        let ground = self.ground.as_ref().ok_or(AdminError::SharedPostgres)?;
        Ok(ground.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a process has its working directory there.
fn works_in(dir: &Path) -> bool {
    let Ok(dir) = dir.canonicalize() else { return false };
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let mut places =
        processes.filter_map(|entry| fs::read_link(entry.ok()?.path().join("cwd")).ok());
    places.any(|place: PathBuf| place == dir)
}
