//! Files of 10 kB, as logs and user files are.

use std::path::PathBuf;

use super::{Row, Side, empty};
use crate::{
    contender::Contender,
    lab::{Lab, N_TINY, TINY},
    load::Work,
    outcome::Unit,
};

const CLIENTS: usize = 16;

pub(super) fn rows(lab: &Lab) -> Vec<Row> {
    vec![
        get(lab, "GET 10 kB TLS", 40_000, false),
        put(lab),
        checksums(lab),
        get(lab, "GET 10 kB, new TLS", 4_000, true),
    ]
}

fn get(lab: &Lab, name: &'static str, requests: usize, fresh: bool) -> Row {
    let side = |who: &Contender| {
        let work = Work::SmallGet {
            base: format!("{}/tiny", who.tls),
            files: N_TINY,
            size: TINY,
            clients: CLIENTS,
            requests,
            fresh,
        };
        Side::new(lab, who, work, requests as f64)
    };
    Row {
        name,
        mark: "nginx: rate >= 1",
        unit: Unit::Requests,
        limit: None,
        most: None,
        sides: lab.contenders.iter().map(side).collect(),
    }
}

fn put(lab: &Lab) -> Row {
    const REQUESTS: usize = 10_000;
    let side = |who: &Contender| {
        let work = Work::SmallPut {
            base: format!("{}/up", who.tls),
            size: TINY,
            clients: CLIENTS,
            requests: REQUESTS,
        };
        let directory = who.data.0.join("up");
        Side::new(lab, who, work, REQUESTS as f64).after(move || empty(&directory))
    };
    Row {
        name: "PUT 10 kB TLS",
        mark: "XRootD: rate >= 1.5",
        unit: Unit::Requests,
        limit: None,
        most: None,
        sides: lab.contenders.iter().map(side).collect(),
    }
}

/// The same endpoint with two checksums and without: their cost in a small upload.
fn checksums(lab: &Lab) -> Row {
    const REQUESTS: usize = 10_000;
    let weir = lab.weir();
    let side = |name, area: &str, directory: PathBuf| {
        let work = Work::SmallPut {
            base: format!("{}/{area}", weir.origin()),
            size: TINY,
            clients: CLIENTS,
            requests: REQUESTS,
        };
        let side = Side::new(lab, weir, work, REQUESTS as f64).named(name);
        side.after(move || empty(&directory))
    };
    Row {
        name: "PUT 10 kB checksums",
        mark: "both over none, as measured",
        unit: Unit::Requests,
        limit: None,
        most: None,
        sides: vec![
            side("both", "data/up", weir.data.0.join("up")),
            side("none", "bare/up", lab.bare.join("up")),
        ],
    }
}
