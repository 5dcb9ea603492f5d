//! Large files, in and out.

use std::path::PathBuf;

use super::{Row, Side, empty};
use crate::{
    contender::Contender,
    lab::{LARGE, Lab, N_SMALL, SMALL},
    load::Work,
    outcome::Unit,
};

/// One large file, or eight smaller ones.
#[derive(Clone, Copy)]
pub(super) enum Files {
    One,
    Eight,
}

impl Files {
    pub(super) fn names(self) -> Vec<String> {
        match self {
            Self::One => vec!["large".to_owned()],
            Self::Eight => (1..=N_SMALL).map(|index| format!("small{index}")).collect(),
        }
    }

    pub(super) fn size(self) -> u64 {
        match self {
            Self::One => LARGE,
            Self::Eight => SMALL,
        }
    }

    pub(super) fn bytes(self) -> f64 {
        (self.size() * self.names().len() as u64) as f64
    }
}

pub(super) fn rows(lab: &Lab) -> Vec<Row> {
    vec![
        get(lab, "GET plain 1 x 2 GB", false, Files::One),
        get(lab, "GET plain 8 x 256 MB", false, Files::Eight),
        get(lab, "GET TLS 1 x 2 GB", true, Files::One),
        get(lab, "GET TLS 8 x 256 MB", true, Files::Eight),
        put(lab, "PUT plain 1 x 2 GB", false, Files::One),
        put(lab, "PUT plain 8 x 256 MB", false, Files::Eight),
        put(lab, "PUT TLS 1 x 2 GB", true, Files::One),
        put(lab, "PUT TLS 8 x 256 MB", true, Files::Eight),
        durable(lab),
        checksums(lab),
    ]
}

fn get(lab: &Lab, name: &'static str, tls: bool, files: Files) -> Row {
    let side = |who: &Contender| {
        let urls = files
            .names()
            .iter()
            .map(|file| format!("{}/{file}", who.door(tls)))
            .collect();
        let size = files.size();
        Side::new(lab, who, Work::Get { urls, size }, files.bytes())
    };
    Row {
        name,
        mark: if tls { "rate >= 1.1, CPU <= 0.85" } else { "rate >= 1" },
        unit: Unit::Bytes,
        limit: Some(if tls {
            lab.limits.tls_pair
        } else {
            lab.limits.loopback_tcp
        }),
        most: None,
        sides: lab.contenders.iter().map(side).collect(),
    }
}

fn put(lab: &Lab, name: &'static str, tls: bool, files: Files) -> Row {
    let side = |who: &Contender| {
        let into = format!("{}/up", who.door(tls));
        upload(lab, who, &into, who.data_of(tls).join("up"), files)
    };
    Row {
        name,
        mark: if tls { "XRootD: rate >= 2.5, CPU <= 0.4" } else { "" },
        unit: Unit::Bytes,
        limit: Some(if tls {
            lab.limits.tls_pair
        } else {
            lab.limits.loopback_tcp
        }),
        most: None,
        sides: lab.contenders.iter().map(side).collect(),
    }
}

fn upload(lab: &Lab, who: &Contender, into: &str, directory: PathBuf, files: Files) -> Side {
    let urls = files.names().iter().map(|file| format!("{into}/{file}")).collect();
    let size = files.size();
    Side::new(lab, who, Work::Put { urls, size }, files.bytes()).after(move || empty(&directory))
}

/// The same endpoint, durable before success on a disk, beside the memory of the rows above.
fn durable(lab: &Lab) -> Row {
    let weir = lab.weir();
    let side = |name, area: &str, directory: PathBuf| {
        let into = format!("{}/{area}", weir.origin());
        upload(lab, weir, &into, directory, Files::One).named(name)
    };
    Row {
        name: "PUT TLS durable, disk",
        mark: "durable over cached: rate >= 0.8",
        unit: Unit::Bytes,
        limit: Some(lab.limits.disk_direct),
        most: None,
        sides: vec![
            side("durable", "disk/up", lab.disk.join("weir-a/up")),
            side("cached", "data/up", weir.data.0.join("up")),
        ],
    }
}

fn checksums(lab: &Lab) -> Row {
    let weir = lab.weir();
    let side = |name, area: &str, directory: PathBuf| {
        let into = format!("{}/{area}", weir.origin());
        upload(lab, weir, &into, directory, Files::One).named(name)
    };
    Row {
        name: "PUT TLS checksums",
        mark: "both over none: CPU <= 1.03",
        unit: Unit::Bytes,
        limit: Some(lab.limits.tls_pair),
        most: None,
        sides: vec![
            side("both", "data/up", weir.data.0.join("up")),
            side("none", "bare/up", lab.bare.join("up")),
        ],
    }
}
