//! A process of the drill's own: started, listened to, killed with -9, ended.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::relayer::ADMITTED;
use super::worker::{DECLINED, READY};
use crate::{Failure, Outcome, sh};

/// How long a process may take to be ready, or to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running process. It is killed with this value.
pub(super) struct Process {
    child: Child,
    admitted: mpsc::Receiver<()>,
}

impl Process {
    /// Starts this program with other arguments and waits until it says that it is ready.
    pub(super) async fn start(args: &[String], declined: &Arc<AtomicU64>) -> Result<Self, Failure> {
        let mut child = sh::program(std::env::current_exe()?)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("the process has no output")?;
        let (admits, admitted) = mpsc::channel(1);
        let process = Process { child, admitted };
        let (ready, mut is_ready) = mpsc::channel(1);
        let declined = Arc::clone(declined);
        // It ends with the process, whose output ends then.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                match line.as_str() {
                    READY => drop(ready.try_send(())),
                    ADMITTED => drop(admits.try_send(())),
                    DECLINED => drop(declined.fetch_add(1, Ordering::Relaxed)),
                    other => println!("{other}"),
                }
            }
        });
        let ready = tokio::time::timeout(PATIENCE, is_ready.recv()).await?;
        ready.ok_or("the process ended before it was ready")?;
        Ok(process)
    }

    /// Waits until a relay stands between an admission and its delete.
    pub(super) async fn admitted(&mut self) -> Outcome {
        let admitted = tokio::time::timeout(PATIENCE, self.admitted.recv()).await?;
        admitted.ok_or_else(|| "the relay ended before an admission".into())
    }

    /// Lets a relay that stands there go on.
    pub(super) fn go_on(&mut self) -> Outcome {
        let input = self.child.stdin.as_mut().ok_or("the process has no input")?;
        Ok(input.write_all(b"\n")?)
    }

    /// Kills it where it stands.
    pub(super) fn kill9(mut self) -> Outcome {
        // On Unix this is SIGKILL.
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Fails when it has ended by itself.
    pub(super) fn lives(&mut self) -> Outcome {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("a process ended by itself: {status}").into()),
        }
    }

    /// Tells it to end, by the end of its input, and waits for that.
    pub(super) async fn end(mut self) -> Result<ExitStatus, Failure> {
        drop(self.child.stdin.take());
        let by = Instant::now() + PATIENCE;
        while Instant::now() < by {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("the process doesn't end".into())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, and then neither does anything.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
