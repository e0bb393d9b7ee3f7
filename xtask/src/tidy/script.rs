//! One script: its header against its body, and both against the typed call.

use std::collections::BTreeSet;

use super::body::Body;
use super::bundle::Expected;
use super::header::{Header, Named};

/// The word of a full server's own refusal.
const OOM: &str = "OOM";
/// What is untrue in a script. `text` is what the server runs.
pub(super) fn faults(text: &str, expected: &Expected) -> Vec<String> {
    let header = match Header::parse(text) {
        Ok(header) => header,
        Err(fault) => return vec![fault],
    };
    let lines: Vec<&str> = text.lines().skip(header.lines).collect();
    let body = Body::read(&lines.join("\n"));
    let mut faults = Vec::new();
    call_faults(&header, expected, &mut faults);
    uses_faults(&header, &body, &mut faults);
    names_faults(&header, &body, &mut faults);
    refusal_faults(&header, &body, expected, &mut faults);
    facts_faults(&header, &body, &mut faults);
    faults
}

/// The header against the typed call.
fn call_faults(header: &Header, expected: &Expected, faults: &mut Vec<String>) {
    let keys: Vec<&str> = header.keys.iter().map(|key| key.name.as_str()).collect();
    if keys != expected.keys {
        faults.push(format!("KEYS are {keys:?}, the typed call sends {:?}", expected.keys));
    }
    let args: Vec<&str> = header.args.iter().map(arg_name).collect();
    if args != expected.args {
        faults.push(format!("ARGV are {args:?}, the typed call sends {:?}", expected.args));
    }
    if header.tail != expected.tail {
        let (ours, theirs) = (&header.tail, &expected.tail);
        faults.push(format!("ARGV end with {ours:?}, the typed call's with {theirs:?}"));
    }
    if header.returns != expected.returns {
        let (ours, theirs) = (&header.returns, &expected.returns);
        faults.push(format!("RETURNS says {ours:?}, the typed call {theirs:?}"));
    }
}

/// The counts: what is used, and what is checked before anything else.
fn uses_faults(header: &Header, body: &Body, faults: &mut Vec<String>) {
    let (keys, args) = (header.keys.len(), header.args.len());
    for n in body.keys.iter().filter(|n| **n > keys) {
        faults.push(format!("the body uses KEYS[{n}], the header ends at KEYS[{keys}]"));
    }
    for n in body.args.iter().filter(|n| **n > args) {
        faults.push(format!("the body uses ARGV[{n}], the header's last with a name is {args}"));
    }
    for (lists, used, list) in
        [(&header.keys, &body.keys, "KEYS"), (&header.args, &body.args, "ARGV")]
    {
        for (n, named) in (1..).zip(lists) {
            let unused = !used.contains(&n);
            let says_so = named.note.starts_with("not used");
            if unused != says_so {
                let truth = if unused { "is not used" } else { "is used" };
                faults.push(format!("{list}[{n}] {truth}, and its line says otherwise"));
            }
        }
    }
    let keys_condition = format!("~= {keys}");
    let args_condition =
        if header.tail.is_some() { format!("< {args}") } else { format!("~= {args}") };
    for (list, checked, right) in
        [("KEYS", &body.keys_checked, keys_condition), ("ARGV", &body.args_checked, args_condition)]
    {
        if checked.as_ref() != Some(&right) {
            faults
                .push(format!("the body must refuse `#{list} {right}` first; it has {checked:?}"));
        }
    }
}

/// A local that holds a key or an argument bears its name.
fn names_faults(header: &Header, body: &Body, faults: &mut Vec<String>) {
    for (n, local) in &body.key_names {
        let name = header.keys.get(n - 1).map(|key| last_part(&key.name));
        if name.is_some_and(|name| name != local) {
            faults.push(format!(
                "KEYS[{n}] is {} in the header and `{local}` in the body",
                name.unwrap_or_default()
            ));
        }
    }
    for (n, local) in &body.arg_names {
        let name = header.args.get(n - 1).map(arg_name);
        if name.is_some_and(|name| name != local) {
            faults.push(format!(
                "ARGV[{n}] is {} in the header and `{local}` in the body",
                name.unwrap_or_default()
            ));
        }
    }
}

/// The refusals: the header's are the body's, and the typed call knows them.
fn refusal_faults(header: &Header, body: &Body, expected: &Expected, faults: &mut Vec<String>) {
    let said: BTreeSet<String> =
        header.refuses.iter().filter(|word| *word != OOM).cloned().collect();
    if said != body.refuses {
        faults.push(format!("REFUSES says {said:?}, the body refuses with {:?}", body.refuses));
    }
    let known: BTreeSet<String> = expected.refuses.iter().cloned().collect();
    if said != known {
        faults.push(format!("REFUSES says {said:?}, the typed call knows {known:?}"));
    }
    let refused_when_full = header.refuses.iter().any(|word| word == OOM);
    if refused_when_full == header.allow_oom {
        faults
            .push("a script either refuses OOM or starts with the shebang that lets it run".into());
    }
    if header.allow_oom != expected.runs_when_full {
        let runs = if expected.runs_when_full { "runs" } else { "is refused" };
        faults.push(format!("on a full server it {runs} by the typed call, not by the shebang"));
    }
}

/// The clock and the derived keys.
fn facts_faults(header: &Header, body: &Body, faults: &mut Vec<String>) {
    let clock = if body.asks_clock { "server" } else { "none" };
    if header.clock != clock {
        faults.push(format!("CLOCK says {}, the body's is {clock}", header.clock));
    }
    let derived: BTreeSet<&str> = header.derived.iter().map(String::as_str).collect();
    let mut built = BTreeSet::new();
    if body.derives_rows {
        built.insert("emq:{q}:job:<id>");
    }
    if body.derives_lanes {
        built.insert("emq:{q}:g:<group>:pending");
    }
    if derived != built {
        faults.push(format!("DERIVED says {derived:?}, the body builds {built:?}"));
    }
}

/// The queue's base is written as its value, and named `base` everywhere else.
fn arg_name(arg: &Named) -> &str {
    if arg.name == "emq:{q}:" { "base" } else { &arg.name }
}

fn last_part(key: &str) -> &str {
    key.rsplit(':').next().unwrap_or(key)
}
