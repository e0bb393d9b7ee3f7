//! `cargo xtask layers`: the law of layers, checked on what cargo knows of the workspace.
//!
//! ```text
//! emq-stores -> emq-core -> emq-scripts -> { emq-keys, emq-wire }
//! ```
//! A layer may use any below it. emq-keys and emq-wire know nothing of each other, and nothing
//! below emq-core's users knows the test servers except in its tests.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

use crate::{Outcome, sh};

/// The crate that only tests, and the tools named in [`LAW`], may use.
const GROUND: &str = "emq-testkit";

/// What a crate of this workspace may use of the others.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
    /// Whether its tests may start servers.
    tests_on_ground: bool,
    /// Packages from outside that it must not reach, directly or through others.
    never: &'static [&'static str],
    /// Packages from outside that it must not name itself.
    not_directly: &'static [&'static str],
}

const LAW: &[Layer] = &[
    Layer {
        name: "emq-keys",
        may_use: &[],
        tests_on_ground: false,
        never: &["tokio", "mio", "socket2", "mlua", "redis-protocol"],
        not_directly: &[],
    },
    Layer {
        name: "emq-wire",
        may_use: &[],
        tests_on_ground: true,
        never: &["mlua"],
        not_directly: &[],
    },
    Layer {
        name: "emq-scripts",
        may_use: &["emq-keys", "emq-wire"],
        tests_on_ground: true,
        never: &["mlua"],
        not_directly: &["redis-protocol"],
    },
    Layer {
        name: "emq-core",
        may_use: &["emq-scripts", "emq-keys", "emq-wire"],
        tests_on_ground: true,
        never: &["mlua"],
        not_directly: &["redis-protocol", "sha1"],
    },
    Layer {
        name: "emq-stores",
        may_use: &["emq-core", "emq-keys"],
        tests_on_ground: true,
        never: &["mlua"],
        not_directly: &["redis-protocol", "sha1"],
    },
    Layer {
        name: "echomq",
        may_use: &["emq-stores", "emq-core", "emq-scripts", "emq-keys", "emq-wire"],
        tests_on_ground: true,
        never: &[],
        not_directly: &[],
    },
    Layer {
        name: GROUND,
        may_use: &[],
        tests_on_ground: false,
        never: &[],
        not_directly: &["tokio"],
    },
    Layer { name: "emq-cli", may_use: HANDS, tests_on_ground: true, never: &[], not_directly: &[] },
    Layer {
        name: "conformance",
        may_use: ANY,
        tests_on_ground: true,
        never: &[],
        not_directly: &[],
    },
    Layer {
        name: "contender",
        may_use: &[],
        tests_on_ground: false,
        never: &[],
        not_directly: &[],
    },
    Layer {
        name: "emq-bench",
        may_use: MEASURED,
        tests_on_ground: true,
        never: &[],
        not_directly: &[],
    },
    Layer { name: "xtask", may_use: ALL, tests_on_ground: true, never: &[], not_directly: &[] },
];

/// Everything that is used by others, the ground included.
const ANY: &[&str] =
    &["echomq", "emq-stores", "emq-core", "emq-scripts", "emq-keys", "emq-wire", GROUND];
/// That, and what one side of the referee speaks.
const MEASURED: &[&str] = &[
    "echomq",
    "emq-stores",
    "emq-core",
    "emq-scripts",
    "emq-keys",
    "emq-wire",
    GROUND,
    "contender",
];
/// What most may use, and the contracts, which `emq conform` runs against the caller's server.
const HANDS: &[&str] = &[
    "echomq",
    "emq-stores",
    "emq-core",
    "emq-scripts",
    "emq-keys",
    "emq-wire",
    GROUND,
    "conformance",
];
/// Everything, and what measures: only the automation may call it.
const ALL: &[&str] = &[
    "echomq",
    "emq-stores",
    "emq-core",
    "emq-scripts",
    "emq-keys",
    "emq-wire",
    GROUND,
    "conformance",
    "emq-bench",
];

/// A crate of the workspace with what it uses.
#[derive(Default)]
struct Member {
    name: String,
    /// Direct dependencies of the library and its build script: the name, and whether optional.
    uses: BTreeMap<String, bool>,
    /// Direct dependencies of its tests.
    tests_use: BTreeSet<String>,
    /// Everything that ends up in a build of it for a user.
    reaches: BTreeSet<String>,
}

pub(crate) fn run() -> Outcome {
    let manifest = sh::root().join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).exec()?;
    let members = members(&metadata);
    let broken = check(&members);
    if broken.is_empty() {
        let edges: usize = members.iter().map(|member| member.uses.len()).sum();
        println!("layers: {} crates and {edges} edges keep the law", members.len());
        return Ok(());
    }
    for line in &broken {
        eprintln!("layers: {line}");
    }
    Err(format!("{} forbidden edges: see crates' Cargo.toml", broken.len()).into())
}

/// One line for each edge that the law forbids.
fn check(members: &[Member]) -> Vec<String> {
    let ours: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut broken = Vec::new();
    for member in members {
        let name = &member.name;
        let Some(layer) = LAW.iter().find(|layer| layer.name == name) else {
            broken.push(format!("{name} has no layer: give it one in xtask/src/layers.rs"));
            continue;
        };
        for (other, optional) in &member.uses {
            let of_ours = ours.contains(other.as_str());
            if of_ours && !layer.may_use.contains(&other.as_str()) {
                broken.push(format!("{name} -> {other} is forbidden"));
            }
            if layer.not_directly.contains(&other.as_str()) && !optional {
                broken.push(format!("{name} -> {other} is forbidden (a layer below knows it)"));
            }
        }
        for other in member.tests_use.iter().filter(|other| ours.contains(other.as_str())) {
            let on_ground = other == GROUND && layer.tests_on_ground;
            if !on_ground && other != name && !layer.may_use.contains(&other.as_str()) {
                broken.push(format!("{name} -> {other} is forbidden in tests too"));
            }
        }
        for other in layer.never.iter().filter(|other| member.reaches.contains(**other)) {
            broken.push(format!("{name} reaches {other}, which it must not know"));
        }
    }
    broken
}

fn members(metadata: &Metadata) -> Vec<Member> {
    let member = |package: &&cargo_metadata::Package| {
        let mut member = Member { name: package.name.to_string(), ..Member::default() };
        for dependency in &package.dependencies {
            if dependency.kind == DependencyKind::Development {
                member.tests_use.insert(dependency.name.clone());
            } else {
                let optional = member.uses.entry(dependency.name.clone()).or_insert(true);
                *optional &= dependency.optional;
            }
        }
        member.reaches = reaches(metadata, &package.id);
        member
    };
    metadata.workspace_packages().iter().map(member).collect()
}

/// The names of all packages that a build of this one takes, its tests' left out.
fn reaches(metadata: &Metadata, from: &PackageId) -> BTreeSet<String> {
    let nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
    let nodes: BTreeMap<_, _> = nodes.map(|node| (&node.id, node)).collect();
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop().and_then(|id| nodes.get(id)) {
        for dependency in &node.deps {
            let used =
                |kind: &cargo_metadata::DepKindInfo| kind.kind != DependencyKind::Development;
            if dependency.dep_kinds.iter().any(used) && seen.insert(&dependency.pkg) {
                open.push(&dependency.pkg);
            }
        }
    }
    seen.into_iter().map(|id| metadata[id].name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, uses: &[&str], tests_use: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            uses: uses.iter().map(|name| ((*name).to_owned(), false)).collect(),
            tests_use: tests_use.iter().map(|name| (*name).to_owned()).collect(),
            reaches: uses.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// The lawful workspace with one member replaced.
    fn with(planted: Member) -> Vec<String> {
        let mut members = vec![
            member("emq-keys", &["thiserror"], &["proptest"]),
            member("emq-wire", &["tokio", "sha1"], &[GROUND]),
            member("emq-scripts", &["emq-keys", "emq-wire"], &[GROUND]),
            member("emq-core", &["emq-scripts", "emq-keys", "tokio"], &[GROUND]),
            member("echomq", &["emq-core"], &[GROUND]),
            member(GROUND, &["tempfile"], &[]),
            member("conformance", &["emq-wire", GROUND], &[]),
            member("xtask", &["emq-core", GROUND, "conformance"], &[]),
        ];
        members.retain(|member| member.name != planted.name);
        members.push(planted);
        check(&members)
    }

    #[test]
    fn the_lawful_workspace_is_lawful() {
        assert_eq!(with(member("xtask", &[], &[])), Vec::<String>::new());
    }

    #[test]
    fn each_planted_edge_is_found() {
        for (name, uses, tests_use) in [
            ("emq-wire", &["emq-keys"][..], &[][..]),
            ("emq-keys", &["emq-wire"], &[]),
            ("emq-keys", &[], &["emq-wire"]),
            ("emq-keys", &["tokio"], &[]),
            ("emq-keys", &[], &[GROUND]),
            ("emq-scripts", &["emq-core"], &[]),
            ("emq-core", &["echomq"], &[]),
            ("emq-core", &["sha1"], &[]),
            ("emq-core", &[GROUND], &[]),
            ("echomq", &[GROUND], &[]),
            (GROUND, &["tokio"], &[]),
            (GROUND, &["emq-wire"], &[]),
            ("emq-stores", &["emq-wire"], &[]),
            ("emq-core", &["conformance"], &[]),
            ("echomq", &[], &["conformance"]),
            ("emq-cli", &["xtask"], &[]),
            (GROUND, &["conformance"], &[]),
            ("emq-new", &[], &[]),
        ] {
            let broken = with(member(name, uses, tests_use));
            assert!(!broken.is_empty(), "{name} {uses:?} {tests_use:?}");
            assert!(broken.iter().all(|line| line.starts_with(name)), "{broken:?}");
        }
    }

    #[test]
    fn an_optional_dependency_leaves_the_default_build_light() {
        let mut ground = member(GROUND, &["tempfile"], &[]);
        ground.uses.insert("tokio".to_owned(), true);
        assert_eq!(with(ground), Vec::<String>::new());
    }

    #[test]
    fn the_workspace_itself_is_read() {
        let manifest = sh::root().join("Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).exec().unwrap();
        let members = members(&metadata);
        let of = |name: &str| members.iter().find(|member| member.name == name).unwrap();
        assert!(of("xtask").uses.contains_key(GROUND));
        assert!(of("emq-wire").reaches.contains("tokio"));
        assert!(!of("emq-keys").reaches.contains("tokio"));
        assert!(of(GROUND).uses["testcontainers"]);
    }
}
