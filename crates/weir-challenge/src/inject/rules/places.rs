//! Source files as the catalogue knows them: their names, their paths, their replicas.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};
use weir_units::Algorithm;

use super::RulesDoor;
use crate::inject::injection::{InjectionError, JobId};
use crate::prepare::seed::Sources;

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
        self.add_scope().await?;
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
                return Err(self.catalog.service.unreachable(text));
            }
        }
        Ok(())
    }

    /// Where the catalogue answers.
    pub(crate) fn url(&self) -> &str {
        &self.catalog.service.url
    }

    /// A client that trusts it.
    pub(crate) fn client(&self) -> &weir_http::Client {
        &self.catalog.service.client
    }

    /// The account as which the catalogue knows the run.
    ///
    /// # Errors
    /// [`InjectionError`].
    pub(crate) async fn known_as(&self) -> Result<String, InjectionError> {
        self.catalog.service.redirected("/accounts/whoami").await
    }

    /// Sees whether the catalogue has these RSEs where the grid file has them.
    ///
    /// # Errors
    /// [`InjectionError`] of the first that it does not have, or has elsewhere.
    pub(crate) async fn find_rses(&self, doors: &BTreeSet<usize>) -> Result<(), InjectionError> {
        for door in doors {
            self.paths(*door, &[&format!("{}.source.0", self.run)]).await?;
        }
        Ok(())
    }

    /// Makes the scope of the run's files. An account that may make no scopes must have it.
    async fn add_scope(&self) -> Result<(), InjectionError> {
        let (account, scope) = (&self.catalog.account, &self.catalog.scope);
        let made = self
            .add(&format!("/accounts/{account}/scopes/{scope}"), Value::Null)
            .await;
        let Err(refused @ InjectionError::Refused { .. }) = made else {
            return made;
        };
        let answer = self
            .catalog
            .service
            .ask(Method::GET, &format!("/accounts/{account}/scopes/"), None)
            .await;
        let scopes: Vec<String> = answer
            .ok()
            .and_then(|answer| serde_json::from_slice(&answer).ok())
            .unwrap_or_default();
        if scopes.contains(scope) { Ok(()) } else { Err(refused) }
    }

    fn nowhere(&self, door: usize, did: &str) -> InjectionError {
        let rse = &self.doors[door].name;
        let text = format!("the catalogue has no place at {rse} for {}:{did}", self.catalog.scope);
        self.catalog.service.unreachable(text)
    }

    /// The paths of files at an RSE, below its base.
    async fn paths(&self, door: usize, names: &[&str]) -> Result<BTreeMap<String, String>, InjectionError> {
        let door = &self.doors[door];
        let lfns: Vec<String> = names
            .iter()
            .map(|name| format!("lfn={}:{name}", self.catalog.scope))
            .collect();
        let mut elsewhere = None;
        // The first protocol of an RSE may be another than WebDAV.
        for scheme in ["", "&scheme=davs", "&scheme=https"] {
            let path = format!("/rses/{}/lfns2pfns?{}{scheme}", door.name, lfns.join("&"));
            let answer = match self.catalog.service.ask(Method::GET, &path, None).await {
                Err(InjectionError::Refused { .. }) if elsewhere.is_some() => continue,
                answer => answer?,
            };
            let pfns: BTreeMap<String, String> =
                serde_json::from_slice(&answer).map_err(|error| self.catalog.service.unreachable(error))?;
            let mut paths = BTreeMap::new();
            for (did, pfn) in &pfns {
                let name = did
                    .strip_prefix(&self.catalog.scope)
                    .and_then(|name| name.strip_prefix(':'));
                if let Some((name, path)) = name.zip(path_below(&door.url, pfn)) {
                    paths.insert(name.to_owned(), path);
                } else {
                    elsewhere.get_or_insert_with(|| pfn.clone());
                }
            }
            // An answer without places is no sign that the RSE is there.
            if !paths.is_empty() && paths.len() == pfns.len() {
                return Ok(paths);
            }
        }
        let (rse, url) = (&door.name, &door.url);
        let text = match elsewhere {
            Some(pfn) => format!("the catalogue has {rse} at {pfn}, the grid file at {url}"),
            None => format!("the catalogue names no place for files at {rse}"),
        };
        Err(self.catalog.service.unreachable(text))
    }

    /// Registers the source files that were written, in a dataset for each RSE with a rule that protects them; gives the rules, with the door of each.
    ///
    /// # Errors
    /// [`InjectionError`].
    pub(crate) async fn register(&self, sources: &Sources) -> Result<Vec<(usize, JobId)>, InjectionError> {
        let mut by_door: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        for file in sources.files() {
            if let (Some(did), None) = (&file.did, sources.refused(file.door)) {
                let adler32 = file.checksums.get(Algorithm::Adler32).map(weir_units::Checksum::hex);
                let row = json!({ "scope": self.catalog.scope, "name": did, "bytes": file.size, "adler32": adler32, "state": "A" });
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
                    .filter_map(|file| Some(self.did(file["name"].as_str()?)))
                    .collect();
                self.add(
                    &format!("/dids/{}/{dataset}/dids", self.catalog.scope),
                    json!({ "dids": attached }),
                )
                .await?;
            }
            let rule = self.add_rule(
                &dataset,
                json!({
                    "copies": 1, "rse_expression": rse, "lifetime": PROTECTED, "purge_replicas": true,
                    "comment": format!("source files of run {}", self.run),
                }),
            );
            rules.push((door, JobId::Rule(rule.await?)));
        }
        Ok(rules)
    }
}

/// A place that is taken lies below the base.
#[cfg(any(test, fuzzing))]
pub(super) fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let pfns: BTreeMap<String, String> = serde_json::from_str(text).unwrap_or_default();
    for pfn in pfns.values().map(String::as_str).chain([text]) {
        if let Some(path) = path_below("https://se.example.org/area", pfn) {
            assert!(path.starts_with('/') && pfn.ends_with(&path), "{pfn} {path}");
        }
    }
}

/// The path of a file below a storage's base; `None` if it is not there. Catalogues write ports that go without saying.
fn path_below(base: &str, pfn: &str) -> Option<String> {
    let plain = |url: &str| {
        let url = url.replacen("davs://", "https://", 1);
        let (origin, path) = url.split_at(weir_grid::origin(&url).len());
        format!("{}{path}", origin.strip_suffix(":443").unwrap_or(origin))
    };
    let (base, place) = (plain(base), plain(pfn));
    let path = place.strip_prefix(&base).filter(|path| path.starts_with('/'));
    path.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::path_below;

    #[test]
    fn places_are_compared_as_clients_reach_them() {
        // Wrong: a run is refused because the catalogue writes a default port, or a file of a neighbour's area passes
        // for ours.
        let path = |base: &str, pfn: &str| path_below(base, pfn);
        let some = |path: &str| Some(path.to_owned());
        assert_eq!(path("https://a.org/x", "davs://a.org:443/x/s/f"), some("/s/f"));
        assert_eq!(path("https://a.org:443/x", "https://a.org/x/s/f"), some("/s/f"));
        assert_eq!(path("https://a.org:8443/x", "davs://a.org:8443/x/s/f"), some("/s/f"));
        assert_eq!(path("https://a.org", "davs://a.org:443/s/f"), some("/s/f"));
        assert_eq!(path("https://a.org/x", "davs://a.org:443/xy/f"), None);
        assert_eq!(path("https://a.org/x", "davs://a.org:4430/x/f"), None);
        assert_eq!(path("https://a.org/x", "root://a.org:1094//x/f"), None);
    }
}
