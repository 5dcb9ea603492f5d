//! Third-party copies between two servers of a kind; their CPU is that of both ends together.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Row, Side, bulk::Files, empty};
use crate::{contender::Contender, lab::Lab, load::Work, outcome::Unit};

/// As much as a file of raw data has.
const HUGE: u64 = 20_000_000_000;

/// Many copies at once are of files of this size.
const EVENT: u64 = 10_000_000;

const MANY: usize = 600;

pub(super) fn rows(lab: &Lab) -> Vec<Row> {
    vec![
        copy(lab, "TPC pull TLS 1 x 2 GB", true, Files::One),
        copy(lab, "TPC pull TLS 8x256 MB", true, Files::Eight),
        copy(lab, "TPC push TLS 1 x 2 GB", false, Files::One),
        copy(lab, "TPC push TLS 8x256 MB", false, Files::Eight),
        many(lab),
        huge(lab),
    ]
}

fn work(lab: &Lab, pairs: Vec<(String, String)>, pull: bool, at_once: usize, streams: Option<u32>) -> Work {
    Work::Copy {
        pairs,
        header: if pull { "Source" } else { "Destination" }.to_owned(),
        at_once,
        streams,
        forward: lab.token.clone(),
    }
}

fn copy(lab: &Lab, name: &'static str, pull: bool, files: Files) -> Row {
    let side = |who: &Contender| {
        let second = who.second.as_ref()?;
        let pair = |file: String| {
            let (source, target) = (format!("{}/{file}", who.tls), format!("{second}/up/{file}"));
            if pull { (target, source) } else { (source, target) }
        };
        let pairs: Vec<_> = files.names().into_iter().map(pair).collect();
        let (at_once, directory) = (pairs.len(), who.data.1.join("up"));
        let side = Side::new(lab, who, work(lab, pairs, pull, at_once, None), files.bytes());
        Some(side.after(move || empty(&directory)))
    };
    Row {
        name,
        mark: if pull {
            "rate >= 1.25, CPU <= 0.7"
        } else {
            "rate >= 2.2, CPU <= 0.5"
        },
        unit: Unit::Bytes,
        limit: Some(lab.limits.tls_pair),
        most: None,
        sides: lab.contenders.iter().filter_map(side).collect(),
    }
}

/// The same files, many at once and few at once.
fn many(lab: &Lab) -> Row {
    let weir = lab.weir();
    let second = weir.second.clone().unwrap_or_default();
    let source = weir.data.0.join("event");
    let side = |name, at_once| {
        let pair = |number| (format!("{second}/up/{number}"), format!("{}/event", weir.tls));
        let pairs = (0..MANY).map(pair).collect();
        let (source, directory) = (source.clone(), weir.data.1.join("up"));
        Side::new(
            lab,
            weir,
            work(lab, pairs, true, at_once, None),
            (MANY as u64 * EVENT) as f64,
        )
        .named(name)
        .before(move || sized(&source, EVENT))
        .after(move || empty(&directory))
    };
    Row {
        name: "TPC pull 600 at once",
        mark: "600 over 40: rate >= 0.95; <= 300 MB",
        unit: Unit::Bytes,
        limit: Some(lab.limits.tls_pair),
        most: None,
        sides: vec![side("600", MANY), side("40", 40)],
    }
}

/// A file that is larger than memory has room for copies of, over four streams to a disk.
fn huge(lab: &Lab) -> Row {
    let side = |who: &Contender| {
        let second = who.second.as_ref()?;
        let second = second.trim_end_matches("/data");
        let target = format!("{second}/{}/huge", who.disk_path());
        let pairs = vec![(target, format!("{}/huge", who.tls))];
        let source = who.data.0.join("huge");
        let copied = lab.disk.join(format!("{}-b/huge", who.name));
        let remove = source.clone();
        let side = Side::new(lab, who, work(lab, pairs, true, 1, Some(4)), HUGE as f64);
        Some(
            side.before(move || sized(&source, HUGE))
                .after(move || arrived(&copied, &remove)),
        )
    };
    Row {
        name: "TPC pull 4 x 20 GB",
        mark: "completes, memory does not grow",
        unit: Unit::Bytes,
        limit: Some(lab.limits.disk_direct),
        most: Some(1),
        sides: lab.contenders.iter().filter_map(side).collect(),
    }
}

/// A file of zeros that takes no room.
fn sized(path: &PathBuf, size: u64) -> Result<()> {
    let file = fs::File::create(path).with_context(|| format!("{}", path.display()))?;
    file.set_len(size)?;
    Ok(())
}

fn arrived(copied: &PathBuf, source: &PathBuf) -> Result<()> {
    let size = fs::metadata(copied)
        .with_context(|| format!("{}", copied.display()))?
        .len();
    ensure!(size == HUGE, "{size} bytes arrived");
    fs::remove_file(copied)?;
    fs::remove_file(source)?;
    Ok(())
}
