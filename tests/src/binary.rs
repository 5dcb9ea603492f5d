//! Where the binary under test is, and whether it is what the sources say.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::SystemTime;

static BINARY: LazyLock<Result<PathBuf, String>> = LazyLock::new(find);

/// The `weir` binary: `WEIR_BIN`, else the one that was built beside these tests.
///
/// # Panics
/// If it is not there, or older than a source file it was built from: a test of yesterday's binary proves nothing.
pub fn weir_binary() -> &'static Path {
    find_weir().unwrap_or_else(|error| panic!("{error}"))
}

/// As [`weir_binary`].
///
/// # Errors
/// A line that says what is wrong with it, and what to do.
pub fn find_weir() -> Result<&'static Path, &'static str> {
    BINARY.as_deref().map_err(String::as_str)
}

fn find() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("WEIR_BIN") {
        // Programs are started in folders of their own.
        let path = std::path::absolute(&named).map_err(|error| format!("WEIR_BIN: {error}"))?;
        return if path.is_file() {
            Ok(path)
        } else {
            Err(format!("{} is missing; WEIR_BIN names it", path.display()))
        };
    }
    let here = std::env::current_exe().expect("a running program has a path");
    let folder = here.parent().expect("a program lies in a folder");
    // A test is target/PROFILE/deps/NAME-HASH, a program target/PROFILE/NAME.
    let (profile, remedy) = match folder.parent() {
        Some(profile) if folder.ends_with("deps") => (
            profile,
            "build it: `cargo test --workspace --no-run` (`make blackbox` does)",
        ),
        _ => (folder, "build it: `make build`, or name one with WEIR_BIN"),
    };
    let binary = profile.join("weir");
    let Some(built) = modified(&binary) else {
        return Err(format!("{} is missing; {remedy}", binary.display()));
    };
    let sources = sources(&profile.join("deps"), &binary);
    if sources.is_empty() {
        return Err(format!(
            "nothing says what {} was built from; {remedy}",
            binary.display()
        ));
    }
    let newer = sources
        .iter()
        .find(|source| modified(source).is_some_and(|time| time > built));
    if let Some(source) = newer {
        return Err(format!(
            "{} is older than {}; {remedy}",
            binary.display(),
            source.display()
        ));
    }
    Ok(binary)
}

/// The sources of our libraries and of the binary itself, as the compiler noted them beside what it made of them; not those of tests. The binary's unit tests are `weir-HASH` too: only the one as long as the binary is the binary itself.
fn sources(deps: &Path, binary: &Path) -> Vec<PathBuf> {
    let length = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.len());
    let names = fs::read_dir(deps).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let units = names.filter_map(|name| {
        let library = name
            .strip_prefix("libweir_")
            .and_then(|name| name.strip_suffix(".rlib"));
        let library = library.map(|name| format!("weir_{name}"));
        library.or_else(|| {
            name.strip_suffix(".d")
                .filter(|name| name.starts_with("weir-"))
                .filter(|name| length(&deps.join(name)) == length(binary))
                .map(str::to_owned)
        })
    });
    let notes = units.filter_map(|unit| fs::read_to_string(deps.join(format!("{unit}.d"))).ok());
    // Make's format: `target: source source …`, blanks escaped (which our paths have not); sources are told from the workspace's root.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources: Vec<PathBuf> = Vec::new();
    for note in notes {
        let words = note.split_whitespace().filter(|word| word.starts_with("crates/"));
        sources.extend(words.map(|word| root.join(word)));
    }
    sources
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
