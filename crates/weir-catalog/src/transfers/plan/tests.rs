#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use super::*;
use crate::{
    rses::{Described, Rse, Traits},
    testing::protocol,
};

fn site(protocols: Vec<Protocol>) -> Site {
    Site {
        described: Described {
            rse: Rse {
                id: RseId(1),
                uid: String::new(),
                name: "A".parse().unwrap(),
                traits: Traits::default(),
                created: 0,
                updated: 0,
            },
            attributes: BTreeMap::new(),
        },
        protocols,
        room: None,
    }
}

fn hosts<'a>(from: &'a Site, to: &'a Site) -> Option<(&'a str, &'a str)> {
    let (read, write) = pair(from, to)?;
    Some((&read.endpoint.hostname, &write.endpoint.hostname))
}

#[test]
fn rses_are_joined_by_the_best_protocols_that_they_share() {
    let from = site(vec![
        protocol("root", "r", 1),
        protocol("davs", "d", 2),
        protocol("https", "h", 3),
    ]);
    assert_eq!(hosts(&from, &site(vec![protocol("https", "x", 1)])), Some(("d", "x")));
    assert_eq!(
        hosts(&from, &site(vec![protocol("xroot", "x", 1), protocol("davs", "y", 2)])),
        Some(("r", "x"))
    );
    assert_eq!(hosts(&from, &site(vec![protocol("gsiftp", "x", 1)])), None);
    // Not for third-party copies.
    let mut mute = protocol("davs", "m", 1);
    mute.priorities.tpc_write = None;
    assert_eq!(hosts(&from, &site(vec![mute.clone()])), None);
    mute.priorities.tpc_write = Some(1);
    mute.priorities.tpc_read = None;
    assert_eq!(hosts(&site(vec![mute]), &from), None);
}
