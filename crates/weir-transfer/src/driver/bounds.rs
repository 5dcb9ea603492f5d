//! Bounds on data that is kept for the lifetime of the service: invented names cannot fill the memory.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use weir_sched::{JobSpec, Link, Names, Record, TransferSpec};

use super::depth::Full;
use crate::config::LimitsConfig;

/// How much there is, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holdings {
    /// Transfers that have not ended.
    pub transfers: u64,
    /// Storage elements that have a name here.
    pub storages: u64,
    /// Links between them that transfers have used.
    pub links: u64,
}

impl Holdings {
    /// How much there may be in all.
    pub fn of(limits: &LimitsConfig) -> Self {
        Self {
            transfers: limits.queue,
            storages: limits.known_storages,
            links: limits.known_links,
        }
    }
}

/// Known links, and the limit on their number.
#[derive(Debug)]
pub struct Bounds {
    most: Holdings,
    links: HashSet<Link>,
}

impl Default for Bounds {
    /// Without any bound.
    fn default() -> Self {
        let most = Holdings {
            transfers: u64::MAX,
            storages: u64::MAX,
            links: u64::MAX,
        };
        Self {
            most,
            links: HashSet::new(),
        }
    }
}

fn check(known: u64, new: usize, most: u64, what: &str) -> Result<(), Full> {
    if new == 0 || known + new as u64 <= most {
        return Ok(());
    }
    Err(Full {
        reason: format!("the service knows {known} {what}, {new} more would be beyond the {most} that it remembers"),
        retry_after: Duration::from_secs(600),
        unknown: false,
    })
}

impl Bounds {
    /// Sets the limits from now on; known names stay.
    pub fn limit_to(&mut self, most: Holdings) {
        self.most = most;
    }

    /// How many links are known.
    pub fn n_links(&self) -> u64 {
        self.links.len() as u64
    }

    /// Whether these storage elements, each named once, may be remembered.
    pub fn storages<'a>(&self, named: impl Iterator<Item = &'a str>, names: &Names) -> Result<(), Full> {
        let new = named.filter(|se| names.find_se(se).is_none()).count();
        check(names.n_ses() as u64, new, self.most.storages, "storage elements")
    }

    /// Whether the links of a job may be remembered.
    pub fn links(&self, spec: &JobSpec) -> Result<(), Full> {
        let links = spec.transfers.iter().map(TransferSpec::link);
        let new = links.filter(|link| !self.links.contains(link)).collect::<BTreeSet<_>>();
        self.check_links(new.len())
    }

    /// Whether the names in a job of another node may be remembered.
    pub fn room(&self, links: &[(String, String)], names: &Names) -> Result<(), Full> {
        let ses = links.iter().flat_map(|(source, destination)| [source, destination]);
        let ses = ses.map(String::as_str).collect::<BTreeSet<_>>();
        self.storages(ses.into_iter(), names)?;
        let known = |(source, destination): &(String, String)| {
            let (source, destination) = (names.find_se(source)?, names.find_se(destination)?);
            Some(self.links.contains(&Link { source, destination }))
        };
        let new = links.iter().filter(|link| known(link) != Some(true));
        self.check_links(new.collect::<BTreeSet<_>>().len())
    }

    fn check_links(&self, new: usize) -> Result<(), Full> {
        check(self.n_links(), new, self.most.links, "links")
    }

    /// A job was taken.
    pub fn remember(&mut self, spec: &JobSpec) {
        self.links.extend(spec.transfers.iter().map(TransferSpec::link));
    }

    /// Records a job that came from the store or from another node: its names are always kept.
    pub fn restored(&mut self, files: &[Record]) {
        self.links.extend(files.iter().filter_map(|record| match record {
            Record::Live(live) => Some(live.transfer.link()),
            _ => None,
        }));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;
    use crate::{store::submission, testing::surl};

    #[test]
    fn names_and_links_have_bounds_for_whoever_brings_them() {
        // They are never forgotten: a user with invented hosts would fill the memory, and make each look at all links slow.
        let (mut bounds, mut names) = (Bounds::default(), Names::default());
        let mut job = submission(1, 1, 3);
        let mut taken = |bounds: &mut Bounds, destinations: [&str; 3]| {
            for (file, destination) in job.files.iter_mut().zip(destinations) {
                file.destination = surl(format!("https://{destination}/f"));
            }
            let storages = ["https://b", "https://c", "https://d", "https://e"];
            let spec = crate::driver::records::job_spec(&job, &mut names);
            bounds.links(&spec)?;
            bounds.remember(&spec);
            bounds.storages(storages.into_iter(), &names)
        };
        bounds.limit_to(Holdings {
            transfers: 100,
            storages: 5,
            links: 2,
        });
        assert_eq!(taken(&mut bounds, ["b", "c", "b"]), Ok(()));
        assert_eq!(bounds.n_links(), 2);
        assert_eq!(taken(&mut bounds, ["c", "b", "c"]), Ok(()), "nothing of it is new");
        let refused = taken(&mut bounds, ["b", "d", "d"]).unwrap_err();
        assert!(refused.reason.contains("2 links, 1 more"), "{}", refused.reason);
        assert!(!refused.unknown);
        bounds.limit_to(Holdings {
            transfers: 100,
            storages: 4,
            links: 3,
        });
        let refused = taken(&mut bounds, ["b", "d", "d"]).unwrap_err();
        assert!(
            refused.reason.contains("4 storage elements, 1 more"),
            "{}",
            refused.reason
        );

        let source = names.se_name(weir_sched::SeId(0)).to_owned();
        let room = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            bounds.room(&pairs.collect::<Vec<_>>(), &names)
        };
        let (b, c) = ("https://b", "https://c");
        assert_eq!(room(&[(&source, b), (&source, c), (&source, b)]), Ok(()));
        assert!(room(&[(b, &source)]).unwrap_err().reason.contains("3 links, 1 more"));
        assert!(
            room(&[(&source, "https://e")])
                .unwrap_err()
                .reason
                .contains("4 storage elements")
        );
    }
}
