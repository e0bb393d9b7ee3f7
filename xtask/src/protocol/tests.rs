//! The committed page is the generated one, and a template that leaves something out is refused.

use super::{Args, Sources, TEMPLATE, fields, has_row, missing, render, run};
use crate::sh;

fn sources() -> Sources {
    Sources::read(&sh::root().join("lua")).unwrap()
}

fn template() -> String {
    std::fs::read_to_string(sh::root().join(TEMPLATE)).unwrap()
}

#[test]
fn the_committed_page_is_the_generated_one() {
    run(&Args { check: true }).unwrap();
}

#[test]
fn a_key_or_a_field_without_a_row_is_missing() {
    let (sources, template) = (sources(), template());
    assert_eq!(missing(&template, &sources), [""; 0]);
    for (gone, said) in [
        ("| `gweight` ", "the key gweight"),
        ("| `forgiven` ", "the row's field forgiven"),
        ("| `left` ", "meta's field left"),
        ("| `max_attempts` ", "the row's field max_attempts"),
    ] {
        assert!(template.contains(gone), "{gone}");
        assert_eq!(missing(&template.replace(gone, "| other "), &sources), [said]);
    }
}

#[test]
fn the_fields_that_scripts_write_are_found() {
    let mut written = fields::Written::default();
    sources().scripts.iter().for_each(|script| written.add(&script.text));
    let row: Vec<&str> = written.row.iter().map(String::as_str).collect();
    let expected = [
        "attempts",
        "cancel",
        "checkpoint",
        "forgiven",
        "group",
        "headers",
        "holder",
        "kind",
        "last_error",
        "lost",
        "max_attempts",
        "payload",
        "state",
        "unique",
    ];
    assert_eq!(row, expected);
    let meta: Vec<&str> = written.meta.iter().map(String::as_str).collect();
    assert_eq!(meta, ["left", "paused", "spent"]);
}

#[test]
fn a_row_counts_in_its_own_section_only() {
    let page = "## Keys\n\n| `a`, `b` | x |\n\n## Others\n\n| `c` | `d` |\n";
    assert!(has_row(page, "## Keys", "a") && has_row(page, "## Keys", "b"));
    assert!(!has_row(page, "## Keys", "c") && !has_row(page, "## Others", "d"));
}

#[test]
fn each_script_is_on_the_page_with_its_digest_and_its_arguments() {
    let sources = sources();
    let page = render::page(&template(), &sources).unwrap();
    for script in &sources.scripts {
        assert!(page.contains(&format!("### {}\n", script.name)), "{}", script.name);
        assert!(page.contains(&script.sha1), "{}", script.name);
        for arg in &script.header.args {
            assert!(page.contains(&format!("`{}`", arg.name)), "{} {}", script.name, arg.name);
        }
    }
    assert!(render::page("{{wire}}", &sources).is_err());
    assert!(render::page(&format!("{}{{{{more}}}}", template()), &sources).is_err());
}
