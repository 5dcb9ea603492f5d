//! Runs every input that the fuzz targets begin with, and those that once found something.

use std::path::Path;

use super::targets;

fn run(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        target(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "{name} has no corpus");
}

/// A crash that was fixed must stay fixed, and a corpus must not get lost.
#[test]
fn corpora_hold() {
    run("storage_range", targets::range);
    run("storage_markers", targets::markers);
    run("storage_propfind", targets::propfind);
    run("storage_copy_headers", targets::copy_headers);
    run("storage_digests", targets::digests);
    run("storage_conditions", targets::conditions);
    run("storage_failure", targets::failure);
}
