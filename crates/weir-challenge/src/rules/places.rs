//! Source files as the catalogue knows them: their names, their paths, their replicas.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Value, json};
use weir_units::Algorithm;

use super::{RulesDoor, SCOPE};
use crate::injection::{InjectionError, JobId};
use crate::seed::Sources;

/// The account that makes rules.
const ACCOUNT: &str = "root";

/// DIDs of one request whose URL names them all.
const NAMES_PER_CALL: usize = 40;

/// Files of one request that registers them.
const FILES_PER_CALL: usize = 500;

/// A rule protects source files for this long, in seconds, should the run not delete it: a week.
const PROTECTED: u64 = 604_800;

impl RulesDoor {
    /// Asks the catalogue where source files belong, and notes it in them.
    ///
    /// # Errors
    /// [`InjectionError`]; also if the catalogue knows an RSE at another place than the run, or gives a file different paths at different
    /// RSEs.
    pub(crate) async fn place(&self, sources: &mut Sources, destinations: &[usize]) -> Result<(), InjectionError> {
        self.add(&format!("/accounts/{ACCOUNT}/scopes/{SCOPE}"), Value::Null)
            .await?;
        let mut by_door: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
        for (index, file) in sources.files().iter().enumerate() {
            if let Some(did) = &file.did {
                by_door.entry(file.door).or_default().push((index, did.clone()));
            }
        }
        let example = by_door.values().flatten().next().cloned();
        for (door, files) in by_door {
            for files in files.chunks(NAMES_PER_CALL) {
                let names: Vec<&str> = files.iter().map(|(_, did)| did.as_str()).collect();
                let paths = self.paths(door, &names).await?;
                for (index, did) in files {
                    let path = paths.get(did).ok_or_else(|| self.nowhere(door, did))?;
                    sources.set_path(*index, path);
                }
            }
        }
        let Some((index, did)) = example else { return Ok(()) };
        for door in destinations {
            let paths = self.paths(*door, &[&did]).await?;
            if paths.get(&did) != Some(&sources.file(index).path) {
                let (rse, path) = (&self.doors[*door].name, &sources.file(index).path);
                let text = format!("files have other paths at {rse} than at their source: {path} is elsewhere");
                return Err(self.catalog.unreachable(text));
            }
        }
        Ok(())
    }

    fn nowhere(&self, door: usize, did: &str) -> InjectionError {
        let rse = &self.doors[door].name;
        let text = format!("the catalogue has no place at {rse} for {SCOPE}:{did}");
        self.catalog.unreachable(text)
    }

    /// The paths of files at an RSE, below its base.
    async fn paths(&self, door: usize, names: &[&str]) -> Result<BTreeMap<String, String>, InjectionError> {
        let door = &self.doors[door];
        let lfns: Vec<String> = names.iter().map(|name| format!("lfn={SCOPE}:{name}")).collect();
        let path = format!("/rses/{}/lfns2pfns?{}", door.name, lfns.join("&"));
        let answer = self.catalog.ask(Method::GET, &path, None).await?;
        let pfns: BTreeMap<String, String> =
            serde_json::from_slice(&answer).map_err(|error| self.catalog.unreachable(error))?;
        let mut paths = BTreeMap::new();
        for (did, pfn) in pfns {
            let name = did.strip_prefix(SCOPE).and_then(|name| name.strip_prefix(':'));
            let place = pfn.replacen("davs://", "https://", 1);
            let path = place.strip_prefix(&door.url).filter(|path| path.starts_with('/'));
            let (Some(name), Some(path)) = (name, path) else {
                let (rse, url) = (&door.name, &door.url);
                let text = format!("the catalogue has {rse} at {pfn}, the grid file at {url}");
                return Err(self.catalog.unreachable(text));
            };
            paths.insert(name.to_owned(), path.to_owned());
        }
        Ok(paths)
    }

    /// Registers the source files that were written, in a dataset for each RSE with a rule that protects them; gives the rules.
    ///
    /// # Errors
    /// [`InjectionError`].
    pub(crate) async fn register(&self, sources: &Sources) -> Result<Vec<JobId>, InjectionError> {
        let mut by_door: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        for file in sources.files() {
            if let (Some(did), None) = (&file.did, sources.refused(file.door)) {
                let adler32 = file.checksums.get(Algorithm::Adler32).map(weir_units::Checksum::hex);
                let row = json!({ "scope": SCOPE, "name": did, "bytes": file.size, "adler32": adler32, "state": "A" });
                by_door.entry(file.door).or_default().push(row);
            }
        }
        let mut rules = Vec::new();
        for (door, files) in by_door {
            let rse = &self.doors[door].name;
            let dataset = format!("{}.sources.{rse}", self.run);
            self.add_dataset(&dataset, std::iter::empty()).await?;
            for files in files.chunks(FILES_PER_CALL) {
                self.add("/replicas", json!({ "rse": rse, "files": files })).await?;
                let attached: Vec<Value> = files
                    .iter()
                    .map(|file| json!({ "scope": SCOPE, "name": file["name"] }))
                    .collect();
                self.add(&format!("/dids/{SCOPE}/{dataset}/dids"), json!({ "dids": attached }))
                    .await?;
            }
            let rule = self.add_rule(
                &dataset,
                json!({
                    "copies": 1, "rse_expression": rse, "lifetime": PROTECTED, "purge_replicas": true,
                    "comment": format!("source files of run {}", self.run),
                }),
            );
            rules.push(JobId::Rule(rule.await?));
        }
        Ok(rules)
    }
}
