//! LSC files (`vomsdir/<vo>/<host>.lsc`): the certificate that a VO's attribute server signs with, by its name and
//! those of its authorities. One name a line, the server's first, each followed by that of its issuer.

use std::collections::BTreeMap;
use std::path::Path;

use crate::x509::folder::Entry;
use crate::x509::name::usual_form;

/// Names in slash form, at least two: a server, its issuer, perhaps the issuer's issuer.
pub(crate) type Chain = Vec<String>;

/// The chains of all servers of all VOs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Servers {
    /// Under VO and host.
    chains: BTreeMap<(String, String), Vec<Chain>>,
}

impl Servers {
    /// Reads the files `<vo>/<host>.lsc` in a directory.
    pub(crate) fn load(dir: &Path, entries: &[Entry]) -> Self {
        let mut servers = Self::default();
        for entry in entries.iter().filter(|entry| entry.extension() == "lsc") {
            let vo = entry.path.parent().filter(|parent| parent.parent() == Some(dir));
            let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
            let (Some(vo), Some(file)) = (vo.and_then(name), name(&entry.path)) else {
                continue;
            };
            let host = file.trim_end_matches(".lsc").to_ascii_lowercase();
            match std::fs::read_to_string(&entry.path) {
                Ok(text) => drop(servers.chains.insert((vo, host), chains(&text))),
                Err(error) => tracing::warn!(file = %entry.path.display(), %error, "LSC file left out"),
            }
        }
        servers
    }

    /// One server, by the text of its file.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn of(vo: &str, host: &str, text: &str) -> Self {
        let key = (vo.to_owned(), host.to_owned());
        Self {
            chains: BTreeMap::from([(key, chains(text))]),
        }
    }

    /// Whether there is a file for this server of this VO.
    pub(crate) fn know(&self, vo: &str, host: &str) -> bool {
        self.chains.contains_key(&(vo.to_owned(), host.to_ascii_lowercase()))
    }

    /// Whether the VO's server may sign with a verified chain, given by its names from the server to the root.
    pub(crate) fn allow(&self, vo: &str, host: &str, names: &[String]) -> bool {
        let key = (vo.to_owned(), host.to_ascii_lowercase());
        let known = self.chains.get(&key);
        known.is_some_and(|chains| chains.iter().any(|chain| begins_with(names, chain)))
    }
}

fn begins_with(names: &[String], chain: &[String]) -> bool {
    chain.len() >= 2
        && names.len() >= chain.len()
        && chain
            .iter()
            .zip(names)
            .all(|(wanted, name)| *wanted == usual_form(name))
}

/// The chains of a file, `NEXT CHAIN` between them. Empty lines and comments are passed over; so is a chain of one name,
/// which would let anybody's authority vouch for the server.
pub(crate) fn chains(text: &str) -> Vec<Chain> {
    let mut chains = vec![Vec::new()];
    for line in text.lines().map(str::trim) {
        if line.contains("NEXT CHAIN") {
            chains.push(Vec::new());
        } else if line.starts_with('/')
            && let Some(chain) = chains.last_mut()
        {
            chain.push(usual_form(line));
        }
    }
    chains.retain(|chain| chain.len() >= 2);
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&[&str]]) {
        assert_eq!(chains(text), expected, "{text}");
    }

    /// A server would be refused for a comment in its file, or taken on the word of half a file.
    #[test]
    fn a_file_holds_chains_of_two_names_or_more() {
        check("/CN=server\n/CN=CA\n", &[&["/CN=server", "/CN=CA"]]);
        check("# new\r\n/CN=server\r\n\r\n  /CN=CA \r\n", &[&["/CN=server", "/CN=CA"]]);
        check(
            "/CN=a\n/CN=CA\n------ NEXT CHAIN ------\n/CN=b/Email=x\n/CN=CB\n/CN=root\n",
            &[&["/CN=a", "/CN=CA"], &["/CN=b/emailAddress=x", "/CN=CB", "/CN=root"]],
        );
        check("/CN=server\n", &[]);
        check("", &[]);
        check("not a name\nnor this\n", &[]);
    }
}
