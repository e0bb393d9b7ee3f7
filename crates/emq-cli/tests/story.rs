//! The guide "Any language" tells a story in a shell: this runs it as it stands there.

mod hands;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use hands::{code, command, ended, signal};

const GUIDE: &str = include_str!("../../../docs/guides/any-language.md");

#[test]
fn the_story_of_the_guide_ends_with_all_done() {
    let mut dev = command("", &["dev"]);
    let mut dev = dev.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(dev.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();

    let (commands, printed) = (blocks("sh"), blocks("console"));
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_emq")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).env("PATH", &path).env("EMQ_URL", url);
        let output = shell.stderr(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!((commands.len(), printed.len()), (2, 2), "the guide has two parts");
    for (commands, printed) in commands.iter().zip(printed) {
        assert_eq!(masked(&shell(commands)), masked(printed));
    }

    signal(&dev, "TERM");
    assert_eq!(code(ended(&mut dev)), 0);
}

/// The guide's blocks of a language.
fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    GUIDE.split(&start).skip(1).map(|part| part.split("```").next().unwrap()).collect()
}

/// Output without what differs from run to run: the jobs' names, and when they were minted.
fn masked(output: &str) -> String {
    let mask = |word: &str| match word {
        name if name.len() == 14 && name.starts_with("JOB0") => "<job>".to_owned(),
        time if time.starts_with("20") && time.ends_with('Z') => "<time>".to_owned(),
        other => other.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(mask).collect::<Vec<_>>().join(" ");
    output.lines().map(line).collect::<Vec<_>>().join("\n")
}
