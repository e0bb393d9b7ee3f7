//! A process and all that it starts: its process group, which ends as one.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::time::Instant;

/// How often it is seen whether a process that was told to end has done so.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process that leads a group of its own. Dropping it kills the group.
///
/// A signal is only sent while the leader wasn't waited for: until then its number, which is the
/// group's too, belongs to nobody else, also when it has ended.
pub(super) struct Group {
    leader: Child,
}

impl Group {
    /// Starts the command; answers its standard input and its standard error as well.
    pub(super) fn spawn(
        mut command: Command,
    ) -> io::Result<(Group, Option<ChildStdin>, Option<ChildStderr>)> {
        let mut leader = command.process_group(0).spawn()?;
        let (stdin, stderr) = (leader.stdin.take(), leader.stderr.take());
        Ok((Group { leader }, stdin, stderr))
    }

    /// Waits until the leader ends by itself. What it left behind goes on.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.leader.wait().await
    }

    /// Kills the group at once.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.signal(Signal::KILL);
        self.leader.wait().await.map(|_| ())
    }

    /// Tells the group to end, and kills it when its leader has ended or time is up.
    pub(super) async fn terminate(&mut self, kill_after: Duration) -> io::Result<()> {
        let begun = Instant::now();
        self.signal(Signal::TERM);
        while begun.elapsed() < kill_after && !self.has_ended() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        // Others of the group may still be there when the leader isn't.
        self.kill().await
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.leader.id()?).ok()?)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.pid() {
            // It fails when the group is gone, which is what is wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Whether the leader has ended, without waiting for it: its number stays its own.
    fn has_ended(&self) -> bool {
        let Some(leader) = self.pid() else { return true };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(leader), look), Ok(None))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
