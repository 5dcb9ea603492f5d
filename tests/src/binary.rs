//! Where the binary under test is, and whether it is what the sources say.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

static BINARY: LazyLock<PathBuf> = LazyLock::new(find);

/// The `weir` binary: `WEIR_BIN`, else the one that was built beside these tests.
///
/// # Panics
/// If it is not there, or older than a source file it was built from: a test of yesterday's binary proves nothing.
pub fn weir_binary() -> &'static Path {
    &BINARY
}

fn find() -> PathBuf {
    if let Some(path) = std::env::var_os("WEIR_BIN") {
        return path.into();
    }
    let remedy = "build it: `cargo test --workspace --no-run` (`make blackbox` does)";
    let here = std::env::current_exe().expect("a running program has a path");
    // target/PROFILE/deps/this-test
    let profile = here.ancestors().nth(2).expect("tests are built below target/PROFILE");
    let binary = profile.join("weir");
    let Some(built) = modified(&binary) else {
        panic!("{} is missing; {remedy}", binary.display())
    };
    let sources = fs::read_to_string(profile.join("weir.d")).unwrap_or_default();
    // Make's format: `target: source source …`, blanks escaped (which our paths have not).
    for source in sources.split_whitespace().skip(1) {
        let newer = modified(Path::new(source)).is_some_and(|time| time > built);
        assert!(!newer, "{} is older than {source}; {remedy}", binary.display());
    }
    binary
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
