//! The seam for bundles that were broken on purpose: they are loaded at run time, and what they
//! answer is caught by type.

mod support;

use std::fs;
use std::path::Path;

use emq_scripts::{Bundle, BundleError, CallError, FenceOptions, Fenced, Nudge, ScriptName};
use emq_testkit::Valkey;
use support::{config, queue};

/// A copy of the bundle in a folder of its own.
fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("lua")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    dir
}

#[test]
fn a_copy_is_the_same_bundle() {
    let dir = copy();
    let bundle = Bundle::from_dir(dir.path()).unwrap();
    assert_eq!(bundle.scripts(), Bundle::embedded().scripts());
    assert_eq!(bundle.revision(), Bundle::embedded().revision());
}

#[test]
fn a_folder_that_is_no_bundle_says_what_is_missing() {
    let dir = copy();
    fs::remove_file(dir.path().join("claim.lua")).unwrap();
    let error = Bundle::from_dir(dir.path()).unwrap_err();
    assert!(matches!(error, BundleError::File { .. }), "{error:?}");
    assert!(error.to_string().contains("claim.lua"), "{error}");

    let manifest = dir.path().join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("echomq:2.0.0", "echomq:9.0.0")).unwrap();
    let error = Bundle::from_dir(dir.path()).unwrap_err();
    assert!(error.to_string().contains("echomq:9.0.0"), "{error}");
}

#[tokio::test]
async fn a_mutant_runs_and_a_reply_of_the_wrong_shape_is_caught() {
    let dir = copy();
    let nudge = dir.path().join("nudge.lua");
    let source = fs::read_to_string(&nudge).unwrap();
    let mutated = source.replace("return 1", "return {1, 'secret'}");
    assert_ne!(mutated, source);
    fs::write(&nudge, mutated).unwrap();
    let bundle = Bundle::from_dir(dir.path()).unwrap();

    let valkey = Valkey::start().unwrap();
    let options = FenceOptions::default().bundle(bundle);
    let mutant = Fenced::connect(config(&valkey), options).await.unwrap();
    let error = mutant.call(&queue("orders"), &Nudge).await.unwrap_err();
    match &error {
        CallError::Shape { script: ScriptName::Nudge, found } => {
            assert_eq!(found, "an array of 2 (integer, string)");
        }
        other => panic!("{other:?}"),
    }
    assert!(!error.is_retryable());

    // Both revisions serve one keyspace: each calls the bytes that it carries.
    let whole = support::fenced(&valkey).await;
    whole.call(&queue("orders"), &Nudge).await.unwrap();
    assert!(mutant.call(&queue("orders"), &Nudge).await.is_err());
}
