//! Tests of emq-scripts that run a bundle given at run time: built once, then started for each
//! mutant that the contracts don't notice.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::folder::Folder;
use crate::{Failure, sh};

/// Names the folder of the bundle to the tests.
const SEAM: &str = "EMQ_BUNDLE";

/// How long a test may take: a script that never says that it is done keeps its caller for ever.
/// One that the whole bundle doesn't pass within it fails the command.
const LONGEST: Duration = Duration::from_secs(60);

/// A test that can notice mutants.
struct Trial {
    binary: &'static str,
    /// One test, or empty: all that the binary has.
    test: &'static str,
    env: &'static [(&'static str, &'static str)],
    /// The scripts whose mutants it is for; empty: any.
    scripts: &'static [&'static str],
}

const WALK: &str = "the_scripts_do_what_the_model_says_from_a_fresh_seed";

/// Those that know a script best come first.
const TRIALS: &[Trial] = &[
    Trial {
        binary: "turn",
        test: "a_turn_does_what_the_single_calls_do",
        env: &[("EMQ_TURN_CASES", "120")],
        scripts: &["turn"],
    },
    Trial { binary: "calls", test: "", env: &[], scripts: &["node_lease", "obliterate"] },
    Trial { binary: "operate_obliterate", test: "", env: &[], scripts: &["obliterate", "drain"] },
    Trial { binary: "operate_reassign", test: "", env: &[], scripts: &["lane_reassign"] },
    Trial {
        binary: "timetable",
        test: "",
        env: &[],
        scripts: &["tick", "timetable_put", "timetable_pause", "timetable_remove"],
    },
    Trial { binary: "doctor_looks", test: "", env: &[], scripts: &["doctor"] },
    Trial { binary: "doctor_planted", test: "", env: &[], scripts: &["doctor"] },
    Trial {
        binary: "model",
        test: WALK,
        env: &[("EMQ_MODEL_SEED", "1"), ("EMQ_MODEL_STEPS", "4000")],
        scripts: &[],
    },
    Trial {
        binary: "model",
        test: "malformed_calls_are_refused_and_write_nothing",
        env: &[],
        scripts: &[],
    },
    Trial {
        binary: "model",
        test: WALK,
        env: &[("EMQ_MODEL_SEED", "2"), ("EMQ_MODEL_STEPS", "8000")],
        scripts: &[],
    },
    Trial { binary: "lua_lanes", test: "", env: &[], scripts: &[] },
    Trial { binary: "lua_torn", test: "", env: &[], scripts: &[] },
    Trial { binary: "full_server", test: "", env: &[], scripts: &[] },
    Trial { binary: "hostile", test: "", env: &[], scripts: &[] },
];

/// The tests, built.
pub(super) struct Trials(Vec<Built>);

struct Built {
    trial: &'static Trial,
    program: PathBuf,
    /// What it says of the bundle as it is.
    sound: OnceLock<Result<(), String>>,
}

impl Trials {
    /// No tests: the contracts alone.
    pub(super) fn none() -> Trials {
        Trials(Vec::new())
    }

    pub(super) fn build() -> Result<Trials, Failure> {
        let mut cargo = sh::cargo();
        cargo.args(["test", "-p", "emq-scripts", "--no-run", "--message-format=json"]);
        for trial in TRIALS {
            cargo.args(["--test", trial.binary]);
        }
        let mut programs = HashMap::new();
        for line in sh::output(&mut cargo)?.lines() {
            let message: Value = serde_json::from_str(line)?;
            let (name, path) = (&message["target"]["name"], &message["executable"]);
            if let (Some(name), Some(path)) = (name.as_str(), path.as_str()) {
                programs.insert(name.to_owned(), PathBuf::from(path));
            }
        }
        let built = TRIALS.iter().map(|trial| {
            let program = programs.get(trial.binary).cloned();
            let program = program.ok_or_else(|| format!("cargo built no {}", trial.binary))?;
            Ok(Built { trial, program, sound: OnceLock::new() })
        });
        Ok(Trials(built.collect::<Result<_, String>>()?))
    }

    /// The first test that fails on a bundle, and what it says.
    ///
    /// # Errors
    /// When a test couldn't be run, or fails on the bundle as it is too.
    pub(super) fn hunt(
        &self,
        bundle: &Path,
        script: &str,
    ) -> Result<Option<(String, String)>, Failure> {
        for built in self.0.iter().filter(|built| built.trial.is_for(script)) {
            let name = built.trial.name();
            if let Err(why) = built.run(bundle)? {
                let sound = built.sound.get_or_init(|| built.baseline());
                sound.clone().map_err(|why| format!("{name} fails on the whole bundle: {why}"))?;
                return Ok(Some((name, why)));
            }
        }
        Ok(None)
    }
}

impl Trial {
    fn is_for(&self, script: &str) -> bool {
        self.scripts.is_empty() || self.scripts.contains(&script)
    }

    fn name(&self) -> String {
        let Trial { binary, test, .. } = self;
        if test.is_empty() { (*binary).to_owned() } else { format!("{binary}::{test}") }
    }
}

impl Built {
    fn baseline(&self) -> Result<(), String> {
        let whole = Folder::whole().map_err(|e| e.to_string())?;
        self.run(whole.path()).map_err(|e| e.to_string())?
    }

    /// Runs it; the inner error is its failure in its own words.
    fn run(&self, bundle: &Path) -> Result<Result<(), String>, Failure> {
        let mut command = sh::program(&self.program);
        command.current_dir(sh::root().join("crates/emq-scripts"));
        command.env(SEAM, bundle).env_remove("EMQ_VALKEY_URL").args(["--test-threads", "2"]);
        command.envs(self.trial.env.iter().copied()).stdin(Stdio::null());
        if !self.trial.test.is_empty() {
            command.args(["--exact", self.trial.test]);
        }
        let Some((status, told)) = within(&mut command, LONGEST)? else {
            return Ok(Err(format!("it did not end within {} s", LONGEST.as_secs())));
        };
        match (status.success(), told.contains("test result: FAILED")) {
            (true, _) if told.contains(" 0 passed") => {
                Err(format!("{} ran no test", self.trial.name()).into())
            }
            (true, _) => Ok(Ok(())),
            (false, true) => Ok(Err(first_words(&told))),
            (false, false) => Err(format!("{}: {status}", self.trial.name()).into()),
        }
    }
}

/// Runs a command to its end and takes what it printed; one that doesn't end in time is killed.
fn within(command: &mut Command, time: Duration) -> Result<Option<(ExitStatus, String)>, Failure> {
    let told = tempfile::NamedTempFile::new()?;
    command.stdout(told.reopen()?).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("{}: {e}", sh::line(command)))?;
    let deadline = Instant::now() + time;
    loop {
        if let Some(status) = child.try_wait()? {
            let told = fs::read(told.path())?;
            return Ok(Some((status, String::from_utf8_lossy(&told).into_owned())));
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the first panic says, on one line.
fn first_words(told: &str) -> String {
    const WIDEST: usize = 160;
    let mut lines = told.lines().skip_while(|line| !line.contains("panicked at"));
    let line = lines.nth(1).unwrap_or("it failed");
    line.chars().take(WIDEST).collect()
}
