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

    let parts: Vec<&str> =
        GUIDE.split("```sh\n").skip(1).map(|part| part.split("```").next().unwrap()).collect();
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_emq")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let shell = |script: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]).env("PATH", &path).env("EMQ_URL", url);
        let output = shell.stderr(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let [first, second] = parts[..] else { panic!("the guide has two parts") };
    let seen = shell(first);
    assert!(seen.contains("10000 enqueued\n9990 done, 10 dead\n"), "{seen}");
    assert_eq!(seen.matches("777 here").count(), 10, "{seen}");
    let seen = shell(second);
    assert!(seen.starts_with("10 requeued\n10 done\n"), "{seen}");
    assert!(seen.ends_with("no queues: none has a job or a setting\n"), "{seen}");

    signal(&dev, "TERM");
    assert_eq!(code(ended(&mut dev)), 0);
}
