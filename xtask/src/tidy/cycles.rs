//! Rule `cycles`: the modules of a crate use each other in one direction.
//!
//! A node is a source file, with the modules written out in it. An edge leads from a file that names an item, in a
//! `use` or in any other path, to the file that defines it: re-exports are followed to the definition. So a `pub use`
//! is no edge of its own unless the file names the item elsewhere too. Tests are left out. Methods are not seen: a
//! file with a part of a type's `impl` uses the file of the type, which does not use it.
//! Nor is a re-exported function that its file passes on as a value, without a call.
//!
//! A crate that has cycles is listed in `xtask/tidy.toml` with the number of its files in them, which may only fall.

mod graph;
mod paths;

use std::collections::{BTreeMap, BTreeSet};

use graph::strongly_connected;
use paths::{Import, Path, Source};

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
        let source = &self.sources[file];
        let is_used = |import: &&Import| {
            let named = |name: &String| source.named.contains(&(import.path.within.clone(), name.clone()));
            !import.is_public || import.name.as_ref().is_some_and(named)
        };
        let mut edges = BTreeMap::new();
        let imports = source.imports.iter().filter(is_used);
        let targets = imports.filter_map(|import| {
            let target = self.resolve(&import.path)?;
            let is_item = !target.is_module || import.name.is_none();
            is_item.then_some((target.module, import.path.line))
        });
        let paths = source.paths.iter().filter_map(|path| {
            let target = self.resolve(path)?;
            (!target.is_module).then_some((target.module, path.line))
        });
        for (module, line) in targets.chain(paths) {
            match self.homes.get(&module) {
                Some(target) if target != file => {
                    let first = edges.entry(target.as_str()).or_insert(line);
                    *first = line.min(*first);
                }
                _ => {}
            }
        }
        edges
    }

    /// Where a path leads; none if it begins with something that is not of this crate.
    fn resolve(&self, path: &Path) -> Option<Target> {
        self.follow(path, &mut BTreeSet::new())
    }

    /// The same, with the names that were looked up on the way: a name that needs itself is not found.
    fn follow(&self, path: &Path, seen: &mut BTreeSet<(Vec<String>, String)>) -> Option<Target> {
        let (module, mut rest) = path.start()?;
        let mut target = Target {
            module,
            is_module: true,
        };
        if path.is_bare() {
            let (first, others) = rest.split_first()?;
            target = self.in_scope(&target.module, first, seen)?;
            rest = others;
        }
        for segment in rest {
            if !target.is_module {
                break;
            }
            target = match self.in_scope(&target.module, segment, seen) {
                Some(found) => found,
                None if self.is_imported(&target.module, segment) => return None,
                None => Target {
                    module: target.module,
                    is_module: false,
                },
            };
        }
        Some(target)
    }

    /// The meaning of a name in a module: a child, an item of its own, or an import from this crate.
    fn in_scope(&self, module: &[String], name: &str, seen: &mut BTreeSet<(Vec<String>, String)>) -> Option<Target> {
        let child: Vec<String> = module.iter().cloned().chain([name.to_owned()]).collect();
        if self.homes.contains_key(&child) {
            return Some(Target {
                module: child,
                is_module: true,
            });
        }
        let item = (module.to_vec(), name.to_owned());
        if !seen.insert(item.clone()) {
            return None;
        }
        let source = &self.sources[self.homes.get(module)?];
        let of_module = || source.imports.iter().filter(|import| import.path.within == module);
        let mut by_name = of_module().filter(|import| import.name.as_deref() == Some(name));
        let found = by_name.find_map(|import| self.follow(&import.path, seen));
        // A method may have the name of an import, so that imports come first.
        let own = || {
            source.defined.contains(&item).then(|| Target {
                module: module.to_vec(),
                is_module: false,
            })
        };
        found.or_else(own).or_else(|| {
            let globs: Vec<Target> = of_module()
                .filter(|import| import.name.is_none())
                .filter_map(|import| self.follow(&import.path, seen))
                .collect();
            globs.iter().find_map(|glob| self.in_scope(&glob.module, name, seen))
        })
    }

    /// Whether a module has this name from a `use`.
    fn is_imported(&self, module: &[String], name: &str) -> bool {
        let source = self.homes.get(module).map(|home| &self.sources[home]);
        source.is_some_and(|source| {
            let mut imports = source.imports.iter();
            imports.any(|import| import.path.within == module && import.name.as_deref() == Some(name))
        })
    }
}

/// Where a path leads.
struct Target {
    /// The module, or the one in which the item is defined.
    module: Vec<String>,
    is_module: bool,
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
