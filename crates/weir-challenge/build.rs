//! Embeds the front end's page, or a small honest fallback where the front end was not built, and the commit.

use std::path::Path;
use std::{env, fs};

const PAGE: &str = "../../web/dist/report.html";
const FALLBACK: &str = "fallback.html";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={FALLBACK}");
    // A path that does not exist would make every build run this script; its parent tells when it appears.
    let watched = [PAGE, "../../web/dist", "../../web"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    if let Some(path) = watched {
        println!("cargo:rerun-if-changed={path}");
    }
    let source = if Path::new(PAGE).exists() { PAGE } else { FALLBACK };
    let page = fs::read_to_string(source).unwrap_or_else(|error| panic!("could not read {source}: {error}"));
    let target = Path::new(&env::var_os("OUT_DIR").expect("cargo sets it")).join("report.html");
    fs::write(&target, page).unwrap_or_else(|error| panic!("could not write {}: {error}", target.display()));
    println!("cargo:rerun-if-env-changed=WEIR_COMMIT");
    println!(
        "cargo:rustc-env=WEIR_COMMIT={}",
        env::var("WEIR_COMMIT").ok().or_else(commit).unwrap_or_default()
    );
}

/// Reads the commit that is checked out, without running a program.
fn commit() -> Option<String> {
    let git = Path::new("../../.git");
    let head_file = git.join("HEAD");
    let head = fs::read_to_string(&head_file).ok()?;
    println!("cargo:rerun-if-changed={}", head_file.display());
    let Some(reference) = head.trim().strip_prefix("ref: ") else {
        return Some(head.trim().to_owned());
    };
    let file = git.join(reference);
    if let Ok(hash) = fs::read_to_string(&file) {
        println!("cargo:rerun-if-changed={}", file.display());
        return Some(hash.trim().to_owned());
    }
    let packed = fs::read_to_string(git.join("packed-refs")).ok()?;
    packed
        .lines()
        .find_map(|line| line.strip_suffix(reference).map(|hash| hash.trim().to_owned()))
}
