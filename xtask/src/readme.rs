//! What the README shows is what a test runs.

use crate::sh;

#[test]
fn the_readmes_example_is_the_quick_start() {
    let read = |path: &str| std::fs::read_to_string(sh::root().join(path)).unwrap();
    let example = read("crates/echomq/examples/quickstart.rs");
    let body = &example[example.find("use std::time").unwrap()..];
    assert!(
        read("README.md").contains(&format!("```rust\n{body}```\n")),
        "README.md and crates/echomq/examples/quickstart.rs differ"
    );
}

#[test]
fn the_readmes_two_commands_are_tasks() {
    let readme = std::fs::read_to_string(sh::root().join("README.md")).unwrap();
    for command in ["$ cargo xtask demo ", "$ cargo xtask test "] {
        assert!(readme.contains(command), "{command}");
    }
}
