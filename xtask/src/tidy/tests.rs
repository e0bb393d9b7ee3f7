//! The committed bundle is clean, and each planted fault is found.

use super::budget;
use super::bundle::{Bundle, Expected};
use super::expand::expand;
use super::header::Header;
use crate::sh;

fn committed() -> Bundle {
    Bundle::read(&sh::root().join("lua")).unwrap()
}

#[test]
fn the_committed_bundle_is_clean() {
    assert_eq!(committed().faults(&Expected::all()), Vec::<String>::new());
}

#[test]
fn nothing_is_left_to_fix_in_the_committed_bundle() {
    assert_eq!(committed().fix(&Expected::all()), Vec::<String>::new());
}

/// Replaces text in the template of a script, expands anew and makes the manifest true, so that
/// only the planted fault is left.
fn planted(script: &str, from: &str, to: &str) -> Vec<String> {
    let mut bundle = committed();
    let template = bundle.templates.get_mut(&format!("{script}.lua")).unwrap();
    assert!(template.contains(from), "{script} has no {from:?}");
    *template = template.replacen(from, to, 1);
    bundle.fix(&Expected::all());
    bundle.faults(&Expected::all())
}

/// One fault is planted, and a fault of that kind is found in that file.
fn assert_found(script: &str, from: &str, to: &str, message: &str) {
    let faults = planted(script, from, to);
    let found = faults
        .iter()
        .any(|fault| fault.starts_with(&format!("lua/{script}.lua: ")) && fault.contains(message));
    assert!(found, "{from:?} -> {to:?} in {script}: {faults:?}");
}

#[test]
fn faults_of_the_headers_form_are_found() {
    let cases = [
        ("-- Claim the oldest", "-- claim the\n--\n-- Claim the oldest", "one sentence"),
        ("-- CLOCK   server\n", "", "no CLOCK"),
        ("-- CLOCK   server\n", "-- CLOCK   server\n-- CLOCK   server\n", "comes twice"),
        ("-- RETURNS", "-- RETURN", "no tag"),
        ("-- REFUSES EMQARG\n", "-- REFUSES EMQARG\n-- DERIVED x y\n", "comes after"),
        ("-- KEYS[2]", "-- KEYS[3]", "belongs"),
        ("-- ARGV[3]", "-- ARGV[4]", "belongs"),
        ("#!lua flags=allow-oom", "#!lua", "shebang"),
    ];
    for (from, to, message) in cases {
        assert_found("claim", from, to, message);
    }
}

#[test]
fn a_header_that_disagrees_with_the_typed_call_is_found() {
    let cases = [
        ("claim", "-- KEYS[1] emq:{q}:pending", "-- KEYS[1] emq:{q}:schedule", "KEYS are"),
        ("claim", "-- ARGV[3] ticket ", "-- ARGV[3] coupon ", "ARGV are"),
        ("enqueue", "-- ARGV[5..] pairs", "-- ARGV[5..] items", "ARGV end with"),
        ("retry", "-- REFUSES EMQARG EMQSTALE", "-- REFUSES EMQARG", "REFUSES says"),
        ("nudge", "-- RETURNS 1", "-- RETURNS 2", "RETURNS says"),
        ("enqueue", "-- Admit one job", "#!lua flags=allow-oom\n-- Admit one job", "full server"),
    ];
    for (script, from, to, message) in cases {
        assert_found(script, from, to, message);
    }
}

#[test]
fn a_header_that_disagrees_with_the_body_is_found() {
    let cases = [
        ("claim", "KEYS[5]\nlocal base", "KEYS[6]\nlocal base", "uses KEYS[6]"),
        (
            "claim",
            "ticket = ARGV[1], ARGV[2], ARGV[3]",
            "ticket = ARGV[1], ARGV[2], ARGV[4]",
            "uses ARGV[4]",
        ),
        ("claim", "local pending, active,", "local active, pending,", "`active` in the body"),
        (
            "claim",
            "local base, lease_ms, ticket",
            "local base, ticket, lease_ms",
            "`ticket` in the body",
        ),
        ("claim", "#KEYS ~= 5", "#KEYS ~= 4", "must refuse `#KEYS ~= 5`"),
        ("claim", "#ARGV ~= 3", "#ARGV < 3", "must refuse `#ARGV ~= 3`"),
        ("enqueue", "#ARGV < 4", "#ARGV ~= 4", "must refuse `#ARGV < 4`"),
        ("claim", "-- CLOCK   server", "-- CLOCK   none", "CLOCK says none"),
        ("release", "-- CLOCK   none", "-- CLOCK   server", "CLOCK says server"),
        (
            "claim",
            "-- DERIVED emq:{q}:job:<id>  the row of the id at the head\n",
            "",
            "DERIVED says",
        ),
        ("remove", "EMQSTATE the job", "EMQSTALE the job", "REFUSES says"),
        ("claim", "#!lua flags=allow-oom\n", "", "OOM"),
        ("enqueue", "EMQARG EMQKIND OOM", "EMQARG EMQKIND", "OOM"),
        (
            "claim",
            "wake, ring, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]",
            "wake, ring, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[3], KEYS[5]",
            "KEYS[4] is not used",
        ),
    ];
    for (script, from, to, message) in cases {
        assert_found(script, from, to, message);
    }
}

#[test]
fn what_is_generated_and_stale_is_found_and_mended() {
    let expected = Expected::all();
    let assert_mended = |mut bundle: Bundle, message: &str| {
        let faults = bundle.faults(&expected);
        assert!(faults.iter().any(|fault| fault.contains(message)), "{message}: {faults:?}");
        assert!(!bundle.fix(&expected).is_empty());
        assert_eq!(bundle.faults(&expected), Vec::<String>::new());
    };
    let mut edited = committed();
    edited.scripts.get_mut("claim.lua").unwrap().push_str("-- by hand\n");
    assert_mended(edited, "is not what lua/src/claim.lua expands to");

    let mut wrong_digest = committed();
    let at = wrong_digest.manifest.find("sha1 = \"").unwrap() + "sha1 = \"".len();
    wrong_digest.manifest.replace_range(at..at + 1, "x");
    assert_mended(wrong_digest, "sha1 = \"x");

    let mut wrong_count = committed();
    wrong_count.manifest = wrong_count.manifest.replacen("keys = 3", "keys = 4", 1);
    assert_mended(wrong_count, "says `keys = 4` where `keys = 3` belongs");

    let mut wrong_wire = committed();
    wrong_wire.manifest = wrong_wire.manifest.replacen("echomq:2.0.0", "echomq:2.0.1", 1);
    assert_mended(wrong_wire, "2.0.1");
}

#[test]
fn a_rev_is_kept_by_the_fix_and_a_missing_one_is_a_fault() {
    let expected = Expected::all();
    let mut raised = committed();
    raised.manifest = raised.manifest.replacen("rev = ", "rev = 4", 1);
    assert_eq!(raised.fix(&expected), Vec::<String>::new());
    let mut none = committed();
    none.manifest = none.manifest.replacen("rev = ", "vers = ", 1);
    assert!(none.faults(&expected).contains(&"lua/manifest.toml: states no rev".to_owned()));
}

#[test]
fn files_without_their_counterpart_are_found() {
    let expected = Expected::all();
    let assert_found = |bundle: &Bundle, message: &str| {
        let faults = bundle.faults(&expected);
        assert!(faults.iter().any(|fault| fault == message), "{message}: {faults:?}");
    };
    let mut bundle = committed();
    bundle.scripts.insert("stray.lua".into(), String::new());
    assert_found(&bundle, "lua/stray.lua: has no template lua/src/stray.lua");
    assert_found(&bundle, "lua/stray.lua: has no typed call in emq-scripts");

    let mut bundle = committed();
    bundle.scripts.remove("claim.lua");
    assert_found(&bundle, "lua/claim.lua: is missing; emq-scripts has a typed call for it");

    let mut bundle = committed();
    bundle.parts.remove("now.lua");
    assert_found(&bundle, "lua/src/claim.lua: no part lua/src/parts/now.lua");
    bundle.parts.insert("idle.lua".into(), String::new());
    assert_found(&bundle, "lua/src/parts/idle.lua: is included nowhere");
}

#[test]
fn parts_expand_as_deep_as_their_line_and_without_their_notes() {
    let parts = [
        ("outer.lua", "--! a note\nif x then\n  -- @include inner.lua\nend\n"),
        ("inner.lua", "y = 1\n\nz = 2\n"),
        ("cycle.lua", "-- @include cycle.lua\n"),
    ];
    let parts = parts.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let expanded = expand("a\n  -- @include outer.lua\nb\n", &parts).unwrap();
    assert_eq!(expanded, "a\n  if x then\n    y = 1\n\n    z = 2\n  end\nb\n");
    assert!(expand("-- @include nowhere.lua\n", &parts).unwrap_err().contains("nowhere.lua"));
    assert!(expand("-- @include cycle.lua\n", &parts).unwrap_err().contains("deep"));
}

#[test]
fn a_header_is_parsed_with_its_continuations() {
    let text = "#!lua flags=allow-oom\n-- Do it.\n-- KEYS[1] emq:{q}:wake      list,\n--  tokens\n\
                -- ARGV[1] emq:{q}:          the base\n-- ARGV[2..] items  each\n\
                -- CLOCK   none\n-- RETURNS 1 | 0 no\n--         row\n-- REFUSES EMQARG\n\
                -- LEAVES  it\nreturn 1\n";
    let header = Header::parse(text).unwrap();
    assert!(header.allow_oom);
    assert_eq!(header.sentence, "Do it.");
    assert_eq!(
        (header.keys[0].name.as_str(), header.keys[0].note.as_str()),
        ("emq:{q}:wake", "list, tokens")
    );
    assert_eq!((header.args.len(), header.tail.as_deref()), (1, Some("items")));
    assert_eq!(header.returns, "1 | 0 no row");
    assert_eq!((header.refuses, header.lines), (vec!["EMQARG".to_owned()], 11));
}

#[test]
fn budgets_warn_of_long_files_and_wide_lines() {
    let wide = "x".repeat(101);
    assert_eq!(budget::of_file("a.rs", &wide), ["a.rs:1: 101 columns; aim for 100"]);
    assert_eq!(budget::of_file("a.rs", &"é".repeat(100)), Vec::<String>::new());
    assert_eq!(budget::of_file("a.rs", &"x\n".repeat(401)), ["a.rs: 401 lines; aim for 400"]);
    assert_eq!(budget::of_file("a.rs", &"x\n".repeat(400)), Vec::<String>::new());
}
