//! Rule `cycles`: the modules of a crate use each other in one direction.
//!
//! A node is a source file, with the modules written out in it. An edge is a path that begins at the crate's root, at
//! the module itself, at a parent or at a child. It has the form `crate::`, `self::`, `super::`, `child::`, in a `use`
//! or anywhere else. Not counted are tests, and a child's use of its own parent: a module may be divided into parts
//! that know the whole.
//!
//! A crate that has cycles is listed in `xtask/tidy.toml` with the number of its files in them, which may only fall.

mod graph;
mod paths;

use std::collections::{BTreeMap, BTreeSet};

use graph::strongly_connected;
use paths::{Path, Source};

use super::Finding;

const SETTINGS: &str = "xtask/tidy.toml";

/// Finds crates with more files in cycles than are listed, and with fewer.
pub(super) fn check(files: &BTreeMap<String, String>, listed: &BTreeMap<String, usize>, findings: &mut Vec<Finding>) {
    let crates: BTreeSet<&str> = files
        .keys()
        .filter_map(|path| path.strip_suffix("/Cargo.toml"))
        .collect();
    for folder in &crates {
        let name = folder.rsplit('/').next().unwrap_or(folder);
        let most = listed.get(name).copied().unwrap_or(0);
        let cycles = match Crate::read(folder, files) {
            Ok(read) => read.cycles(),
            Err(finding) => {
                findings.push(finding);
                continue;
            }
        };
        let count: usize = cycles.iter().map(|cycle| cycle.files.len()).sum();
        if count > most {
            findings.extend(cycles.iter().map(|cycle| cycle.finding(folder)));
            let text = format!("{name} has {count} files in import cycles, {most} are allowed");
            findings.push(Finding::new(SETTINGS, 0, text));
        } else if count < most {
            let text = format!("{name} has {count} files in import cycles by now: write that instead of {most}");
            findings.push(Finding::new(SETTINGS, 0, text));
        }
    }
    for name in listed
        .keys()
        .filter(|name| !crates.iter().any(|folder| folder.ends_with(&format!("/{name}"))))
    {
        let text = format!("there is no crate {name} whose import cycles could be allowed");
        findings.push(Finding::new(SETTINGS, 0, text));
    }
}

/// Files that use each other in a circle, one way or another.
struct Cycle {
    files: Vec<String>,
    /// For each of them a line that uses another one.
    uses: Vec<(usize, String)>,
}

impl Cycle {
    fn finding(&self, folder: &str) -> Finding {
        let file = |(file, (line, other)): (&String, &(usize, String))| format!("{file}:{line} uses {other}");
        let uses: Vec<String> = self.files.iter().zip(&self.uses).map(file).collect();
        let text = format!("these files use each other in a circle: {}", uses.join(", "));
        Finding::new(&format!("{folder}/src"), 0, text)
    }
}

/// The modules of a crate.
pub(super) struct Crate {
    /// Files below `src` but those for tests alone, and what each refers to.
    sources: BTreeMap<String, Source>,
    /// The file that holds a module.
    homes: BTreeMap<Vec<String>, String>,
}

impl Crate {
    pub(super) fn read(folder: &str, files: &BTreeMap<String, String>) -> Result<Self, Finding> {
        let below = format!("{folder}/src/");
        let mut read = Self {
            sources: BTreeMap::new(),
            homes: BTreeMap::new(),
        };
        let mut tests = BTreeSet::new();
        let of_crate = files
            .iter()
            .filter_map(|(path, text)| Some((path.strip_prefix(&below)?, path, text)));
        for (file, path, text) in of_crate.filter(|(file, ..)| file.strip_suffix(".rs").is_some()) {
            let source = Source::parse(&module_of(file), text)
                .map_err(|error| Finding::new(path, 0, format!("this is no Rust: {error}")))?;
            tests.extend(source.tests.iter().cloned());
            read.sources.insert(file.to_owned(), source);
        }
        read.sources.retain(|file, _| {
            let module = module_of(file);
            !(0..=module.len()).any(|length| tests.contains(&module[..length]))
        });
        for (file, source) in &read.sources {
            let modules = source.modules.iter().map(|module| (module.clone(), file.clone()));
            read.homes.extend(modules);
        }
        Ok(read)
    }

    /// Its files below `src` but those for tests alone, each with the lines of its items for tests.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, &[(usize, usize)])> {
        let sources = self.sources.iter();
        sources.map(|(file, source)| (file.as_str(), source.test_lines.as_slice()))
    }

    fn cycles(&self) -> Vec<Cycle> {
        let edges: BTreeMap<&str, BTreeMap<&str, usize>> = self
            .sources
            .keys()
            .map(|file| (file.as_str(), self.edges(file)))
            .collect();
        let graph: BTreeMap<&str, Vec<&str>> = edges
            .iter()
            .map(|(file, to)| (*file, to.keys().copied().collect()))
            .collect();
        let cycle = |files: Vec<&str>| {
            let one = |file: &&str| {
                let mut uses = edges[file].iter().filter(|(other, _)| files.contains(other));
                uses.next()
                    .map_or((0, String::new()), |(other, line)| (*line, (*other).to_owned()))
            };
            Cycle {
                uses: files.iter().map(one).collect(),
                files: files.iter().map(|file| (*file).to_owned()).collect(),
            }
        };
        strongly_connected(&graph).into_iter().map(cycle).collect()
    }

    /// The files that one uses, and the line where it does so first.
    fn edges(&self, file: &str) -> BTreeMap<&str, usize> {
        let own = module_of(file);
        let parent = own.split_last().map(|(_, parent)| parent);
        let mut edges = BTreeMap::new();
        for path in &self.sources[file].paths {
            let Some(target) = self.resolve(path) else { continue };
            let is_parent = parent.is_some_and(|parent| self.homes.get(parent) == Some(target));
            if target != file && !is_parent {
                edges.entry(target.as_str()).or_insert(path.line);
            }
        }
        edges
    }

    /// The file of the longest part of a path that is a module; none if it begins with something else.
    fn resolve(&self, path: &Path) -> Option<&String> {
        let (mut module, rest) = path.start()?;
        if path.is_bare() {
            let child: Vec<String> = module.iter().chain(rest.first()).cloned().collect();
            self.homes.get(&child)?;
        }
        for segment in rest {
            let child: Vec<String> = module.iter().chain([segment]).cloned().collect();
            if !self.homes.contains_key(&child) {
                break;
            }
            module = child;
        }
        self.homes.get(&module)
    }
}

/// The module that a file below `src` is.
fn module_of(file: &str) -> Vec<String> {
    let name = file.strip_suffix(".rs").unwrap_or(file);
    let mut parts: Vec<String> = name.split('/').map(str::to_owned).collect();
    let is_folder = parts.last().is_some_and(|last| last == "mod");
    let is_root = parts.len() == 1 && ["lib", "main"].contains(&parts[0].as_str());
    if is_folder || is_root {
        parts.pop();
    }
    parts
}

#[cfg(test)]
mod tests;
