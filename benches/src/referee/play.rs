//! One run of a contender's program: orders out, lines in.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Failure;
use super::line::Line;
use super::side::Side;

/// How much of what a program said to people is quoted when it failed.
const LAST_WORDS: usize = 4;
/// How long a program that was told to end may take until its output is given up.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A program to run: words, the first of which is the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program(Vec<String>);

impl Program {
    /// From words separated by spaces.
    ///
    /// # Errors
    /// When there is no word.
    pub fn parse(words: &str) -> Result<Program, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() { Err("a command is empty".to_owned()) } else { Ok(Program(words)) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]);
        command
    }
}

/// A contender that plays.
#[derive(Debug)]
pub struct Play {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    last_words: JoinHandle<VecDeque<String>>,
    silence: Duration,
}

/// What a contender did next.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// It printed a line.
    Line(Line),
    /// It ended: well, or how not.
    Ended(Result<(), String>),
    /// It printed nothing for too long, and was ended.
    Silent,
}

impl Play {
    /// Starts a side's program with these orders; it may be silent for so long.
    ///
    /// # Errors
    /// When the program can't be started.
    pub fn start(
        program: &Program,
        side: &Side,
        variable: (&str, &str),
        orders: &str,
        silence: Duration,
    ) -> Result<Play, Failure> {
        let mut command = program.command();
        command
            .args(side.args)
            .envs(side.env.iter().copied())
            .env_remove("REFEREE_URL")
            .env_remove("DATABASE_URL")
            .env(variable.0, variable.1)
            .env("REFEREE_ROWS", orders)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| format!("{program:?}: {e}"))?;
        let out = child.stdout.take().ok_or("no standard output")?;
        let err = child.stderr.take().ok_or("no standard error")?;
        Ok(Play {
            child,
            lines: BufReader::new(out).lines(),
            last_words: tokio::spawn(last_words(err)),
            silence,
        })
    }

    /// Waits for the next line, or the end.
    ///
    /// # Errors
    /// A line that isn't of the protocol.
    pub async fn next(&mut self) -> Result<Next, Failure> {
        match timeout(self.silence, self.lines.next_line()).await {
            Err(_) => {
                self.child.start_kill()?;
                Ok(Next::Silent)
            }
            Ok(Ok(Some(line))) => Ok(Next::Line(Line::parse(&line)?)),
            Ok(Ok(None)) => self.ended().await.map(Next::Ended),
            Ok(Err(error)) => Err(error.into()),
        }
    }

    /// Ends it before its end.
    pub async fn end(mut self) {
        // One that has ended already is what is wanted.
        let _ = self.child.kill().await;
    }

    async fn ended(&mut self) -> Result<Result<(), String>, Failure> {
        let Ok(status) = timeout(self.silence, self.child.wait()).await else {
            self.child.start_kill()?;
            return Ok(Err("it printed everything and didn't end".to_owned()));
        };
        let status = status?;
        if status.success() {
            return Ok(Ok(()));
        }
        let words = timeout(END_WITHIN, &mut self.last_words).await;
        let words = words.ok().and_then(Result::ok).unwrap_or_default();
        Ok(Err(format!("{status}: {}", Vec::from(words).join(" | "))))
    }
}

/// Reads to the end, and keeps the last lines.
async fn last_words(from: impl AsyncRead + Unpin) -> VecDeque<String> {
    let mut lines = BufReader::new(from).lines();
    let mut kept = VecDeque::new();
    while let Ok(Some(line)) = lines.next_line().await {
        if kept.len() == LAST_WORDS {
            kept.pop_front();
        }
        kept.push_back(line);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::referee::line::Outcome;

    fn shell(script: &str, silence: Duration) -> Play {
        let program = Program(["sh", "-c", script].map(str::to_owned).to_vec());
        let side = Side::named("ours").unwrap();
        let variable = ("REFEREE_URL", "redis://127.0.0.1:1");
        Play::start(&program, side, variable, "enqueue_50=3", silence).unwrap()
    }

    const PATIENT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn orders_go_out_and_lines_come_in() {
        let script = r#"printf '{"row":"x","absent":"%s %s"}\n' "$REFEREE_URL" "$REFEREE_ROWS""#;
        let mut play = shell(script, PATIENT);
        let said = Outcome::Absent("redis://127.0.0.1:1 enqueue_50=3".to_owned());
        let line = Line::Row("x".to_owned(), said);
        assert_eq!(play.next().await.unwrap(), Next::Line(line));
        assert_eq!(play.next().await.unwrap(), Next::Ended(Ok(())));
    }

    #[tokio::test]
    async fn one_that_fails_is_quoted() {
        let mut play = shell("echo 'no server' >&2; exit 3", PATIENT);
        let Next::Ended(Err(how)) = play.next().await.unwrap() else { panic!("it failed") };
        assert!(how.contains('3') && how.contains("no server"), "{how}");
    }

    #[tokio::test]
    async fn one_that_says_nothing_is_ended() {
        let mut play = shell("exec sleep 100", Duration::from_millis(50));
        assert_eq!(play.next().await.unwrap(), Next::Silent);
        let status = timeout(PATIENT, play.child.wait()).await.unwrap().unwrap();
        assert!(!status.success());
    }

    #[tokio::test]
    async fn a_line_of_something_else_is_an_error() {
        assert!(shell("echo hello", PATIENT).next().await.is_err());
    }

    #[test]
    fn a_command_has_words() {
        assert_eq!(Program::parse("node run.js").unwrap().0, ["node", "run.js"]);
        assert!(Program::parse("  ").is_err());
    }
}
