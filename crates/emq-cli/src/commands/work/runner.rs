//! One job, worked by one process.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use emq_core::{CancelReason, Handler, Job, JobError};
use emq_keys::BrandedId;
use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::group::Group;
use super::stderr::Listener;
use crate::exit::Failure;
use crate::job_view::hex;
use crate::output::Out;

/// A process ends so to be tried again later: `EX_TEMPFAIL` of sysexits.
const LATER: i32 = 75;
/// A process ends so when no attempt can help: `EX_DATAERR`.
const DEAD: i32 = 65;
/// How long a job waits for which the machine had no process.
const NO_PROCESS_DELAY: Duration = Duration::from_secs(1);

/// Runs a command for each job.
pub(super) struct Runner {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) environment: Environment,
    pub(super) kill_after: Duration,
    pub(super) retry_after: Duration,
    pub(super) out: Out,
    /// Fires when all shall end at once.
    pub(super) now: CancellationToken,
    /// Where it is told that no job can be worked here.
    pub(super) trouble: mpsc::Sender<Failure>,
}

/// What a process learns besides its job.
pub(super) struct Environment {
    pub(super) url: String,
    pub(super) queue: String,
}

/// One process that ended, for scripts.
#[derive(Debug, Serialize)]
struct Told<'a> {
    id: BrandedId,
    attempt: u64,
    exit: Option<i32>,
    signal: Option<i32>,
    stopped_for: Option<&'static str>,
    error: Option<&'a str>,
    took_ms: u64,
}

/// How a process came to its end.
enum End {
    /// By itself.
    Own(ExitStatus),
    /// It was told to end, or killed.
    Stopped(&'static str),
}

impl Handler<Bytes> for Runner {
    async fn run(&self, job: Job<Bytes>) -> Result<(), JobError> {
        let begun = Instant::now();
        let (mut group, stdin, mut listener) = match self.spawn(&job) {
            Ok(spawned) => spawned,
            Err(error) => return self.no_process(&job, &error).await,
        };
        let feeding = tokio::spawn(feed(stdin, job.payload.clone()));
        let end = self.wait(&job, &mut group).await;
        feeding.abort();
        let last_line = listener.finish().await;
        let end = end?;
        self.tell(&job, &end, last_line.as_deref(), begun);
        match end {
            End::Own(status) => self.judge(status, last_line),
            End::Stopped(_) if self.now.is_cancelled() => Err(JobError::release()),
            End::Stopped(_) => {
                Err(JobError::new(last_line.unwrap_or_else(|| "stopped".to_owned())))
            }
        }
    }
}

impl Runner {
    fn spawn(&self, job: &Job<Bytes>) -> io::Result<(Group, Option<ChildStdin>, Listener)> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::piped()).stderr(Stdio::piped());
        if self.out.json() {
            // Standard output is ours alone.
            command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        }
        self.tell_environment(&mut command, job);
        let (group, stdin, stderr) = Group::spawn(command)?;
        Ok((group, stdin, Listener::new(stderr)))
    }

    fn tell_environment(&self, command: &mut Command, job: &Job<Bytes>) {
        let hold = job.hold();
        command
            .env("EMQ_URL", &self.environment.url)
            .env("EMQ_QUEUE", &self.environment.queue)
            .env("EMQ_JOB_ID", hold.id.as_str())
            .env("EMQ_TOKEN", hold.token.to_string())
            .env("EMQ_ATTEMPT", job.attempt().to_string());
        let mut maybe = |name: &str, value: Option<Vec<u8>>| match value {
            // What has a zero byte can't stand in an environment.
            Some(value) if !value.contains(&0) => {
                command.env(name, OsString::from_vec(value));
            }
            _ => {
                command.env_remove(name);
            }
        };
        maybe("EMQ_TICKET", hold.ticket.as_deref().map(|ticket| ticket.as_bytes().to_vec()));
        maybe("EMQ_LANE", job.lane().map(|lane| lane.as_bytes().to_vec()));
        maybe("EMQ_KIND", job.kind().map(|kind| kind.as_bytes().to_vec()));
        let checkpoint = job.checkpoint();
        maybe("EMQ_CHECKPOINT", checkpoint.map(|bytes| bytes.to_vec()));
        let binary = checkpoint.filter(|bytes| bytes.contains(&0));
        maybe("EMQ_CHECKPOINT_HEX", binary.map(|bytes| hex(bytes).into_bytes()));
    }

    /// A command that isn't there or can't be run fails every job, so the worker ends instead.
    async fn no_process(&self, job: &Job<Bytes>, error: &io::Error) -> Result<(), JobError> {
        if error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::OutOfMemory {
            return Err(JobError::retry_after(NO_PROCESS_DELAY, format!("no process: {error}")));
        }
        let program = self.program.to_string_lossy();
        // One such message is enough.
        let _ = self.trouble.try_send(Failure::failed(format!("can't run {program}: {error}")));
        tokio::select! {
            () = job.stopping().cancelled() => {}
            () = job.cancelled().cancelled() => {}
        }
        Err(JobError::release())
    }

    async fn wait(&self, job: &Job<Bytes>, group: &mut Group) -> Result<End, JobError> {
        tokio::select! {
            // What ended by itself has done so, whatever else comes in the same moment.
            biased;
            status = group.wait() => Ok(End::Own(status?)),
            () = self.now.cancelled() => {
                group.kill().await?;
                Ok(End::Stopped("stopping"))
            }
            () = job.cancelled().cancelled() => {
                let reason = match job.cancel_reason() {
                    // Another worker may have it: nothing of it may go on here.
                    Some(CancelReason::Stale | CancelReason::Deadline) => {
                        group.kill().await?;
                        return Ok(End::Stopped("lease lost"));
                    }
                    Some(CancelReason::Timeout) => "timeout",
                    Some(CancelReason::Asked) => "cancelled",
                    _ => "stopping",
                };
                tokio::select! {
                    ended = group.terminate(self.kill_after) => ended?,
                    () = self.now.cancelled() => group.kill().await?,
                }
                Ok(End::Stopped(reason))
            }
        }
    }

    fn judge(&self, status: ExitStatus, last_line: Option<String>) -> Result<(), JobError> {
        let words = |default: String| last_line.unwrap_or(default);
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (Some(LATER), _) => {
                Err(JobError::retry_after(self.retry_after, words("exit 75: later".to_owned())))
            }
            (Some(DEAD), _) => Err(JobError::dead(words("exit 65: dead".to_owned()))),
            (Some(code), _) => Err(JobError::new(words(format!("exit {code}")))),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                Err(JobError::new(words(format!("killed by signal {signal}"))))
            }
        }
    }

    fn tell(&self, job: &Job<Bytes>, end: &End, last_line: Option<&str>, begun: Instant) {
        if !self.out.json() {
            return;
        }
        let (status, stopped_for) = match end {
            End::Own(status) => (Some(status), None),
            End::Stopped(reason) => (None, Some(*reason)),
        };
        let failed = status.is_none_or(|status| !status.success());
        let told = Told {
            id: job.id(),
            attempt: job.attempt(),
            exit: status.and_then(ExitStatus::code),
            signal: status.and_then(ExitStatusExt::signal),
            stopped_for,
            error: last_line.filter(|_| failed),
            took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        if let Err(failure) = self.out.value(&told) {
            // Nobody reads what is told, so that going on would be blind.
            let _ = self.trouble.try_send(failure);
        }
    }
}

/// Gives the process its payload. One that doesn't read it to its end doesn't want it.
async fn feed(stdin: Option<ChildStdin>, payload: Bytes) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&payload).await;
        let _ = stdin.shutdown().await;
    }
}
