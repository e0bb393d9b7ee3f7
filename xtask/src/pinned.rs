//! Files from a package registry whose bytes are pinned here.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::Digest;

use crate::{Failure, Outcome};

/// Requires that `file` has the digest `pinned`, in hexadecimal; `what` it is, and `seen_at` the
/// place to look at when it isn't, go into the message.
pub(crate) fn verify<D: Digest>(file: &Path, pinned: &str, what: &str, seen_at: &str) -> Outcome {
    let mut file = fs::File::open(file)?;
    let mut hash = D::new();
    let mut block = vec![0; 64 * 1024];
    loop {
        match file.read(&mut block)? {
            0 => break,
            n => hash.update(&block[..n]),
        }
    }
    let mut found = String::new();
    for byte in hash.finalize() {
        write!(found, "{byte:02x}")?;
    }
    if found == pinned {
        return Ok(());
    }
    let bits = <D as Digest>::output_size() * 8;
    let found = format!("{what} has SHA-{bits} {found}, not the pinned one");
    Err(format!("{found}: don't use it, and look at {seen_at}").into())
}

/// The file that ends in `.{ending}` in a directory, if there is one.
pub(crate) fn downloaded(dir: &Path, ending: &str) -> Result<Option<PathBuf>, Failure> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|its| its == ending) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use sha2::{Sha256, Sha512};

    use super::*;

    #[test]
    fn only_the_pinned_bytes_pass() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.whl");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        fs::write(&file, "abc").unwrap();
        verify::<Sha256>(&file, abc, "x 1.0", "the index").unwrap();
        let other = verify::<Sha512>(&file, abc, "x 1.0", "the index").unwrap_err().to_string();
        assert!(other.starts_with("x 1.0 has SHA-512 "), "{other}");
        fs::write(&file, "abd").unwrap();
        let changed = verify::<Sha256>(&file, abc, "x 1.0", "the index").unwrap_err().to_string();
        assert!(changed.contains("not the pinned one"), "{changed}");
    }

    #[test]
    fn the_file_is_found_by_its_ending() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("log"), "").unwrap();
        assert_eq!(downloaded(dir.path(), "whl").unwrap(), None);
        fs::write(dir.path().join("x.whl"), "").unwrap();
        assert_eq!(downloaded(dir.path(), "whl").unwrap(), Some(dir.path().join("x.whl")));
    }
}
