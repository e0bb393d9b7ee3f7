//! The headers of the Lua files say what the typed calls do.

use emq_scripts::{Bundle, CONTRACTS, Contract, RefusalClass, ScriptName};

/// The header's lines of one kind, `KEYS[1] emq:{q}:pending   zset` under `KEYS[`; a line that only
/// continues the one above is joined to it.
fn lines_of(source: &str, kind: &str) -> Vec<String> {
    let comments = source.lines().skip_while(|line| line.starts_with("#!"));
    let mut lines: Vec<String> = Vec::new();
    for line in comments.map_while(|line| line.strip_prefix("-- ")) {
        match lines.last_mut() {
            Some(last) if line.starts_with("   ") => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    lines.retain(|line| line.starts_with(kind));
    lines
}

/// The word after `KEYS[n]` or `ARGV[n]`, with the number checked.
fn name(line: &str, kind: &str, number: usize) -> String {
    let head = format!("{kind}[{number}] ");
    let rest = line.strip_prefix(&head).unwrap_or_else(|| panic!("{line:?} is not {head:?}"));
    rest.split_whitespace().next().unwrap().to_owned()
}

fn check(contract: &Contract, source: &str) {
    let script = contract.script;
    let keys = lines_of(source, "KEYS[");
    assert_eq!(keys.len(), contract.keys.len(), "{script}");
    for (at, (line, key)) in keys.iter().zip(contract.keys).enumerate() {
        assert_eq!(name(line, "KEYS", at + 1), key.to_string(), "{script}");
    }

    let mut args = lines_of(source, "ARGV[");
    if let Some(tail) = contract.tail {
        let line = args.pop().unwrap();
        let head = format!("ARGV[{}..] {tail} ", contract.args.len() + 1);
        assert!(line.starts_with(&head), "{script}: {line:?} is not {head:?}");
    }
    assert_eq!(args.len(), contract.args.len(), "{script}");
    for (at, (line, arg)) in args.iter().zip(contract.args).enumerate() {
        let expected = if *arg == "base" { "emq:{q}:" } else { arg };
        assert_eq!(name(line, "ARGV", at + 1), expected, "{script}");
    }

    assert_eq!(lines_of(source, "RETURNS "), [format!("RETURNS {}", contract.returns)], "{script}");

    let [refuses] = <[String; 1]>::try_from(lines_of(source, "REFUSES ")).unwrap();
    let mut written: Vec<&str> = refuses.split_whitespace().skip(1).collect();
    let mut known: Vec<&str> = contract.refuses.iter().map(RefusalClass::word).collect();
    if !contract.runs_when_full {
        known.push("OOM");
    }
    written.sort_unstable();
    known.sort_unstable();
    assert_eq!(written, known, "{script}");
    assert_eq!(source.starts_with("#!lua flags=allow-oom\n"), contract.runs_when_full, "{script}");
}

#[test]
fn each_header_says_what_its_contract_says() {
    let scripts: Vec<ScriptName> = CONTRACTS.iter().map(|contract| contract.script).collect();
    assert_eq!(scripts, ScriptName::ALL);
    let bundle = Bundle::embedded();
    for contract in CONTRACTS {
        check(contract, bundle.script(contract.script).source());
    }
}
