//! `weir storage ls`.

use serde_json::json;
use weir_units::Bytes;

use weir_challenge::listing::Entry;

use super::door::StorageClient;
use crate::cli::StorageLsArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

pub(super) async fn run(arguments: &StorageLsArguments, output: &Output) -> Result<Exit, Failure> {
    let door = StorageClient::open(&arguments.access)?;
    let mut found = Vec::new();
    for url in &arguments.urls {
        if arguments.urls.len() > 1 {
            output.line(format!("{url}:"));
        }
        let mut waiting = vec![(url.clone(), String::new())];
        while let Some((url, below)) = waiting.pop() {
            let first = waiting.len();
            for entry in children(door.list(&url).await?) {
                let shown = format!("{below}{}{}", entry.name(), if entry.directory { "/" } else { "" });
                output.line(line(&entry, &shown, arguments.long));
                if arguments.recursive && entry.directory {
                    waiting.push((beneath(&url, entry.name()), shown));
                }
                found.push(entry);
            }
            // The last is looked at next.
            waiting[first..].reverse();
        }
    }
    output.done(&json!({ "entries": found }));
    Ok(Exit::Done)
}

/// The entries of a directory, sorted by name; for a file, its own entry.
pub(super) fn children(mut entries: Vec<Entry>) -> Vec<Entry> {
    if entries.first().is_some_and(|itself| itself.directory) {
        entries.remove(0);
    }
    entries.sort_by(|a, b| a.name().cmp(b.name()));
    entries
}

/// The URL of a directory in a directory.
pub(super) fn beneath(url: &str, name: &str) -> String {
    format!("{}/{}/", url.trim_end_matches('/'), encoded(name))
}

fn line(entry: &Entry, shown: &str, long: bool) -> String {
    if !long {
        return shown.to_owned();
    }
    let size = entry.size.filter(|_| !entry.directory);
    let size = size.map_or_else(|| "-".to_owned(), |size| Bytes(size).to_string());
    format!("{size:>10}  {:<29}  {shown}", entry.modified.as_deref().unwrap_or("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listing in the order of the server's disk is another one each time.
    #[test]
    fn a_directory_is_listed_by_name() {
        let entry = |path: &str| Entry {
            path: path.to_owned(),
            directory: path.ends_with('/'),
            ..Entry::default()
        };
        let listed = children(["/d/", "/d/c", "/d/a/", "/d/b"].map(entry).to_vec());
        let names: Vec<_> = listed.iter().map(Entry::name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(children(vec![entry("/d/c")]), [entry("/d/c")]);
    }
}
