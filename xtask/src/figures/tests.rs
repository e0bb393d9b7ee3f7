//! Planted figures, and numbers that aren't any.

use super::definitions::Definitions;
use super::transcripts::Transcripts;
use super::{Judge, Seen, scan};

const TRANSCRIPT: &str = "rung A: the connector\ndate 2026-11-30\nengine 9.1.2\n\
    A6 throughput ok -- SET one by one 13153/s (ratio 0.94); median 0.42 ms; 35 of 400 ms; 5000 ms";

const DEFINED: &str = r#"
[[definition]]
values = ["64 KiB", "65,536 bytes"]
is = "the payload cap"
pages = ["docs/a.md"]
source = "cap.rs"
says = "64 * 1024"
"#;

fn judged(definitions: &str, path: &str, page: &str) -> Judge {
    let mut transcripts = Transcripts::default();
    transcripts.add(TRANSCRIPT);
    let read = |name: &str| (name == "cap.rs").then(|| "const CAP: usize = 64 * 1024;".to_owned());
    let definitions = Definitions::parse(definitions, read).unwrap();
    let mut judge = Judge { transcripts, definitions, seen: Seen::default(), faults: Vec::new() };
    judge.page(path, page, false);
    judge
}

/// The faults of a page without any definition.
fn faults(page: &str) -> Vec<String> {
    judged("definition = []", "docs/a.md", page).faults
}

#[test]
fn planted_figures_fail() {
    for planted in [
        "It serves 21,000 jobs a second.",
        "It serves 21000/s.",
        "A claim takes 0.3 ms.",
        "A claim takes 12 \u{b5}s.",
        "A claim takes 12us.",
        "About a quarter of a microsecond a job.",
        "A microsecond each.",
        "It was found within two minutes.",
        "That costs some 7 % on a list.",
        "That costs 7% on a list.",
        "Seven percent less.",
        "It is 3.5 times as fast.",
        "It is 5x faster, 3x at least.",
        "It is five times faster.",
        "The peak is 30 MiB.",
        "It came to 6.6 million executions.",
        "It came to 12,345 executions.",
        "| GET | 81.5 |\n|---|---|\n| a | 2 |",
        "A wake takes `0.5 ms`.",
        "A wake takes\n12 ms at most.",
        "```text\nclaim 12 us\n```",
        "## Measured\n\nReplies: 552.",
        "## Measured\n\n### Below\n\n| x | 23 |\n|---|---|\n| y | 81 |",
        "- It takes 12 ms.",
        "> It takes 12 ms.",
        "# It takes 12 ms",
    ] {
        assert!(!faults(planted).is_empty(), "{planted}");
    }
}

#[test]
fn each_figure_of_a_paragraph_is_judged_and_named_with_its_line() {
    let found = faults("One\n\ntwo 12 ms and\nthree 13 MiB.\n");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("docs/a.md:3: 12 ms"), "{found:?}");
    assert!(found[1].starts_with("docs/a.md:4: 13 MiB"), "{found:?}");
}

#[test]
fn numbers_that_are_no_figures_pass() {
    for page in [
        "# 3.4 Fair lanes\n\nSee [chapter 3.3](3.3-machine.md) and chapters 3.1 and 3.2.",
        "Decision 0009 of 2026-11-29, gate A6, law 5.",
        "The version is `echomq:2.0.0`, on Valkey 9.1 or >= 7.2, with Redis 7.0 and `serde` 1.0.",
        "See 127.0.0.1:6379 and echomq 2.0.0.",
        "| a | 1 | 2 |\n|---|---|---|\n| 3 | -1 | 0..=1023 |",
        "1. One\n2. Two: 12 claims over 3 lanes turn the ring 4 times.",
        "```rust\nlet lease = Duration::from_millis(1_500); // 30 s\n```",
        "```console\n$ cargo xtask demo --for 30s\n```",
        "`MAX = 10_000` and `2^40`; a number below 2^63.",
        "In 1970 a clock started; after 2093 none is left.",
        "A quarter of the lanes, half of them, three steps, once a day.",
        "<!-- It took 12 ms. -->",
        "## Measured\n\nNothing yet.\n\n## Later\n\n552 edges",
    ] {
        assert_eq!(faults(page), Vec::<String>::new(), "{page}");
    }
}

#[test]
fn what_a_transcript_has_passes_with_its_unit_only() {
    assert_eq!(faults("SET: 13,153/s, 0.94 of the tool; wakes in 0.42 ms."), Vec::<String>::new());
    assert_eq!(faults("13153 jobs a second; a window of 400 ms; a beat of 5,000 ms"), [""; 0]);
    for wrong in ["0.42 s", "35 ms", "400 MiB", "9.1 ms", "13,154/s", "2026 ms"] {
        assert!(!faults(wrong).is_empty(), "{wrong}");
    }
}

#[test]
fn a_declaration_allows_what_it_names_in_its_own_paragraph() {
    let declared = "The lease is 30 s. <!-- definition: 30 s, the default lease -->";
    assert_eq!(faults(declared), [""; 0]);
    assert_eq!(faults("The lease is 30 s.\n\n<!-- definition: 30 s, the lease -->\n"), [""; 0]);
    let table = "| lease | 30 s <!-- definition: 30 s, the lease --> |\n|---|---|\n| b | c |";
    assert_eq!(faults(table), [""; 0]);
    assert!(faults(&format!("{declared}\n\nIt took 30 s.")).len() == 1);
    let stale = faults("It rests. <!-- definition: 30 s, the lease -->");
    assert!(stale[0].contains("this paragraph lacks"), "{stale:?}");
    let empty = faults("It rests. <!-- definition: the lease -->");
    assert!(empty[0].contains("has no number"), "{empty:?}");
}

#[test]
fn a_listed_definition_is_for_its_pages_and_is_needed() {
    let judge = judged(DEFINED, "docs/a.md", "At most 64 KiB.");
    assert_eq!(judge.faults, [""; 0]);
    let unused = judge.definitions.unused();
    assert!(unused.len() == 1 && unused[0].contains("65,536 bytes"), "{unused:?}");
    assert_eq!(judged(DEFINED, "docs/b.md", "At most 64 KiB.").faults.len(), 1);
}

#[test]
fn a_definition_whose_source_says_otherwise_fails() {
    let read = |_: &str| Some("const CAP: usize = 32 * 1024;".to_owned());
    let refused = Definitions::parse(DEFINED, read).err().unwrap().to_string();
    assert!(refused.contains("no longer says `64 * 1024`"), "{refused}");
    assert!(Definitions::parse(DEFINED, |_| None).is_err());
}

#[test]
fn a_generated_page_is_left_to_its_generator() {
    assert_eq!(faults("<!-- Generated by `cargo xtask x`. -->\n\n12 ms"), [""; 0]);
}

#[test]
fn numbers_are_read_without_their_separators() {
    let found = scan::figures("8,388,608 bytes, 1_000 ms, 2, 345 and 1,5", true);
    let values: Vec<&str> = found.iter().map(|figure| figure.value.as_str()).collect();
    assert_eq!(values, ["8388608", "1000", "2", "345", "1", "5"]);
}
