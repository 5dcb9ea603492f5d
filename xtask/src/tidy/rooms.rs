//! Rule `rooms`: the directions in which crates may use each other.
//!
//! The order of the rooms is read from `tidy.toml`, the edges between them from their manifests, and the dependencies
//! of a pure room from `cargo tree`. `cargo metadata` would not do: its features are those of the whole workspace, so
//! it would blame a pure room for its neighbours' features of a shared dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;

use super::{Finding, Settings, read_command};

/// The clippy settings of every pure room, from its folder.
const PURE_CLIPPY: &str = "../clippy-pure.toml";

/// Checks manifests, crate roots and dependency trees.
pub(super) fn check(
    root: &Path,
    settings: &Settings,
    files: &BTreeMap<String, String>,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<()> {
    let mut manifests = BTreeMap::new();
    for (path, manifest) in files.iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let manifest: toml::Table = manifest.parse().with_context(|| format!("could not parse {path}"))?;
        manifests.insert(path, manifest);
    }
    check_workspace(&manifests, findings);
    for (path, manifest) in &manifests {
        let folder = path.trim_end_matches("Cargo.toml");
        if manifest.contains_key("package") && !folder.starts_with("fuzz/") {
            check_lints(path, manifest, findings);
            check_direction(path, manifest, &settings.rooms, findings);
            check_use(folder, manifest, files, findings);
            check_opening(folder, files, findings);
        }
    }
    for room in &settings.pure {
        let tree = read_command(
            root,
            "cargo",
            &["tree", "-p", room, "-e", "normal", "--prefix", "none", "-f", "{p}"],
        )?;
        check_purity(room, &tree, &settings.impure_packages, findings);
        let link = format!("crates/{room}/clippy.toml");
        if std::fs::read_link(root.join(&link)).ok().as_deref() != Some(Path::new(PURE_CLIPPY)) {
            findings.push(Finding::new(&link, 0, format!("a pure room links it to {PURE_CLIPPY}")));
        }
    }
    Ok(())
}

fn check_lints(path: &str, manifest: &toml::Table, findings: &mut Vec<Finding>) {
    let workspace = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    if workspace != Some(true) {
        findings.push(Finding::new(
            path,
            0,
            "takes no lints from the workspace: add `[lints]` with `workspace = true`",
        ));
    }
}

/// Holds that a crate names only rooms above it, in every kind of dependency.
fn check_direction(path: &str, manifest: &toml::Table, rooms: &[String], findings: &mut Vec<Finding>) {
    let name = package_name(manifest);
    let place = rooms.iter().position(|room| room == name);
    if place.is_none() && name.starts_with("weir-") && path.starts_with("crates/") {
        findings.push(Finding::new(
            path,
            0,
            format!("`{name}` has no place in the order of rooms (xtask/tidy.toml)"),
        ));
    }
    for (dependency, _) in dependencies(manifest) {
        let below = match (rooms.iter().position(|room| *room == dependency), place) {
            (Some(dependency), Some(place)) => dependency >= place,
            (Some(_), None) => name == "xtask",
            (None, _) => false,
        };
        if below {
            findings.push(Finding::new(
                path,
                0,
                format!("`{name}` uses `{dependency}`, which is not above it"),
            ));
        }
    }
}

/// Holds that some crate takes each dependency of the workspace.
fn check_workspace(manifests: &BTreeMap<&String, toml::Table>, findings: &mut Vec<Finding>) {
    let used: BTreeSet<String> = manifests
        .values()
        .flat_map(dependencies)
        .map(|(name, _)| name)
        .collect();
    for (path, manifest) in manifests {
        let workspace = manifest
            .get("workspace")
            .and_then(|workspace| workspace.get("dependencies"));
        let names = workspace
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(toml::Table::keys);
        for name in names.filter(|name| !used.contains(*name)) {
            findings.push(Finding::new(path, 0, format!("no crate uses `{name}`: take it out")));
        }
    }
}

/// Holds that every dependency is named somewhere in the crate's code; a comment does not count.
fn check_use(folder: &str, manifest: &toml::Table, files: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    let own = || {
        files
            .iter()
            .filter(|(path, _)| path.starts_with(folder) && is_rust(path))
    };
    let shared: BTreeSet<String> = own().flat_map(|(path, content)| included(path, content)).collect();
    let code = || own().chain(shared.iter().filter_map(|path| files.get_key_value(path)));
    for (dependency, optional) in dependencies(manifest) {
        // `md-5` is called `md5` in code.
        let words = [dependency.replace('-', "_"), dependency.replace('-', "")];
        let names = |content: &String| {
            content
                .lines()
                .any(|line| is_code(line) && words.iter().any(|word| line.contains(word)))
        };
        if !optional && !code().any(|(_, content)| names(content)) {
            let path = format!("{folder}Cargo.toml");
            findings.push(Finding::new(
                &path,
                0,
                format!("`{dependency}` is not used: take it out"),
            ));
        }
    }
}

/// Files of other crates that a file includes as its modules, by `#[path = "…"]`.
fn included<'a>(path: &'a str, content: &'a str) -> impl Iterator<Item = String> + 'a {
    let targets = content
        .lines()
        .filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
    targets.map(move |target| {
        let mut parts: Vec<&str> = path.split('/').collect();
        parts.pop();
        for part in target.split('/') {
            match part {
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    })
}

fn is_code(line: &str) -> bool {
    !line.trim_start().starts_with("//")
}

pub(super) fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Holds that a crate says at its top what it is.
fn check_opening(folder: &str, files: &BTreeMap<String, String>, findings: &mut Vec<Finding>) {
    for root in ["src/lib.rs", "src/main.rs"] {
        let path = format!("{folder}{root}");
        if files.get(&path).is_some_and(|content| !content.starts_with("//!")) {
            findings.push(Finding::new(
                &path,
                1,
                "a crate opens with `//!`: the room, its place, its invariants",
            ));
        }
    }
}

/// Holds that nothing below a pure room can wait, talk, store or draw entropy.
fn check_purity(room: &str, tree: &str, impure: &[String], findings: &mut Vec<Finding>) {
    let mut found: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| impure.iter().any(|one| one == name))
        .collect();
    found.sort_unstable();
    found.dedup();
    for name in found {
        let path = format!("crates/{room}/Cargo.toml");
        findings.push(Finding::new(
            &path,
            0,
            format!("`{room}` is pure, but `{name}` is in its dependency tree"),
        ));
    }
}

fn package_name(manifest: &toml::Table) -> &str {
    manifest
        .get("package")
        .and_then(|package| package.get("name"))
        .and_then(toml::Value::as_str)
        .unwrap_or_default()
}

/// Names of all dependencies, whether normal, for tests or for building, and whether each is optional.
fn dependencies(manifest: &toml::Table) -> Vec<(String, bool)> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = kinds
        .iter()
        .filter_map(|kind| manifest.get(*kind).and_then(toml::Value::as_table));
    let optional = |value: &toml::Value| value.get("optional").and_then(toml::Value::as_bool).unwrap_or(false);
    tables
        .flatten()
        .map(|(name, value)| (name.clone(), optional(value)))
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn manifest(text: &str) -> toml::Table {
        text.parse().unwrap()
    }

    fn direction_findings(path: &str, text: &str) -> usize {
        let rooms = ["weir-a", "weir-b", "weir-c"].map(String::from);
        let mut findings = Vec::new();
        check_direction(path, &manifest(text), &rooms, &mut findings);
        findings.len()
    }

    #[test]
    fn a_crate_uses_only_rooms_above_it() {
        let b = |dependencies: &str| {
            direction_findings(
                "crates/b/Cargo.toml",
                &format!("[package]\nname = \"weir-b\"\n{dependencies}"),
            )
        };
        assert_eq!(b("[dependencies]\nweir-a = {}\nserde = \"1\""), 0);
        assert_eq!(b("[dependencies]\nweir-c = {}"), 1);
        assert_eq!(b("[dev-dependencies]\nweir-c = {}"), 1);
        assert_eq!(b("[build-dependencies]\nweir-b = {}"), 1);
    }

    #[test]
    fn every_crate_has_its_place() {
        assert_eq!(
            direction_findings("crates/new/Cargo.toml", "[package]\nname = \"weir-new\""),
            1
        );
        assert_eq!(
            direction_findings(
                "xtask/Cargo.toml",
                "[package]\nname = \"xtask\"\n[dependencies]\nweir-a = {}"
            ),
            1
        );
        assert_eq!(
            direction_findings(
                "tests/Cargo.toml",
                "[package]\nname = \"weir-tests\"\n[dependencies]\nweir-c = {}"
            ),
            0
        );
    }

    #[test]
    fn a_runtime_below_a_pure_room_is_found_once() {
        let mut findings = Vec::new();
        let impure = ["tokio", "mio"].map(String::from);
        check_purity(
            "weir-a",
            "weir-a v0.1.0 (/x)\nserde v1.0\ntokio v1.2\ntokio v1.2 (*)\ntokio-util v1\n",
            &impure,
            &mut findings,
        );
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().contains("`tokio`"), "{}", findings[0]);
    }

    #[test]
    fn lints_come_from_the_workspace() {
        let lint_findings = |text: &str| {
            let mut findings = Vec::new();
            check_lints("Cargo.toml", &manifest(text), &mut findings);
            findings.len()
        };
        assert_eq!(lint_findings("[lints]\nworkspace = true"), 0);
        assert_eq!(lint_findings("[lints]\nworkspace = false"), 1);
        assert_eq!(lint_findings(""), 1);
    }

    #[test]
    fn unused_dependencies_and_mute_crates_are_found() {
        let files = BTreeMap::from([("a/src/lib.rs".to_string(), "use used_one::X;".to_string())]);
        let mut findings = Vec::new();
        check_use(
            "a/",
            &manifest("[dependencies]\nused-one = \"1\"\nidle = \"1\"\n"),
            &files,
            &mut findings,
        );
        assert_eq!(findings.len(), 1, "{findings:?}");
        check_opening("a/", &files, &mut findings);
        assert_eq!(findings.len(), 2, "{findings:?}");
    }

    #[test]
    fn a_comment_is_no_use_and_an_included_file_is() {
        // A dependency that only a comment names would stay for ever.
        let used = |content: &str| {
            let files = [("a/tests/main.rs", content), ("b/tests/shared.rs", "use one::X;")];
            let files = BTreeMap::from(files.map(|(path, content)| (path.to_string(), content.to_string())));
            let mut findings = Vec::new();
            check_use(
                "a/",
                &manifest("[dev-dependencies]\none = \"1\"\n"),
                &files,
                &mut findings,
            );
            findings.is_empty()
        };
        assert!(!used("// With one."));
        assert!(used("#[path = \"../../b/tests/shared.rs\"]\nmod shared;"));
    }

    #[test]
    fn workspace_dependencies_that_no_crate_takes_are_found() {
        let (workspace, member) = ("Cargo.toml".to_string(), "a/Cargo.toml".to_string());
        let manifests = BTreeMap::from([
            (
                &workspace,
                manifest("[workspace.dependencies]\none = \"1\"\nidle = \"1\"\n"),
            ),
            (&member, manifest("[dependencies]\none.workspace = true\n")),
        ]);
        let mut findings = Vec::new();
        check_workspace(&manifests, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
    }
}
