//! Vector reads by the libraries of the field: uproot reads a ROOT file, davix reads many pieces of one.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use weir_tests::{Run, Services, StorageSettings, peers, run};

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vector_reads").join(name)
}

fn uproot(services: &Services, arguments: &[&str]) -> Result<Run> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers/bin/python");
    run(Command::new(python)
        .arg(program("uproot_read.py"))
        .args(arguments)
        .env("SSL_CERT_FILE", services.file("authority/ca.pem")))?
    .expect_ok()
}

/// How many ranges the storage has sent in answers that had several.
fn ranges(services: &Services) -> Result<u64> {
    let page = services.ask(&[&format!("{}/.well-known/weir/metrics", services.storage("ALPHA").url)])?;
    let counts = page.body.lines().filter_map(|line| {
        line.strip_prefix("weir_storage_ranges_sent_total")?
            .split(' ')
            .nth(1)?
            .parse::<u64>()
            .ok()
    });
    Ok(counts.sum())
}

#[test]
fn uproot_reads_a_root_file_by_several_ranges() -> Result<()> {
    // Wrong: an analysis that wants three branches of a large file gets all of it, or one request for each basket.
    if !peers() {
        return Ok(());
    }
    // uproot's source has no option for a token.
    let services = Services::start(
        &[StorageSettings::new("ALPHA").area("open", "anonymous_read = true")],
        "",
    )?;
    let file = services.file("events.root");
    let file = file.to_str().unwrap();
    uproot(&services, &["write", file])?;
    let url = format!("{}/open/events.root", services.storage("ALPHA").url);
    services.put(&std::fs::read(file)?, &url)?;
    let read = uproot(&services, &["read", &url, file])?;
    assert!(read.stdout.contains("fallback=False"), "{read:?}");
    // 40 baskets of each of 12 branches, in a few requests.
    let ranges = ranges(&services)?;
    assert!(ranges >= 12 * 40, "{ranges}: {read:?}");
    assert!(read.stdout.starts_with("requests=7 "), "{read:?}");
    Ok(())
}

#[test]
fn davix_reads_many_pieces_of_a_file() -> Result<()> {
    // Wrong: ROOT reads a file over HTTP piece by piece, or gets other bytes than it asked for.
    if !peers() {
        return Ok(());
    }
    let services = Services::start(&[StorageSettings::new("ALPHA")], "")?;
    let reader = services.file("davix_read");
    run(Command::new("g++")
        .args(["-std=c++17", "-D_FILE_OFFSET_BITS=64", "-I/usr/include/davix", "-o"])
        .arg(&reader)
        .arg(program("davix_read.cpp"))
        .arg("-ldavix"))?
    .expect_ok()?;
    let file = services.file("data");
    // Pieces that are less than 2,000 bytes apart davix reads as one.
    let bytes = weir_tests::Draw::new(5).bytes(32 << 20);
    std::fs::write(&file, &bytes)?;
    let url = format!("{}/data", services.storage("ALPHA").url);
    services.put(&bytes, &url)?;
    let token = services.token("storage.read:/")?;
    for count in ["2", "100", "3000"] {
        let read = run(Command::new(&reader)
            .arg(&url)
            .arg(&file)
            .arg(services.file("authority/certificates"))
            .args([token.as_str(), count]))?
        .expect_ok()?;
        assert_eq!(read.stdout.trim(), format!("read {count} pieces"));
    }
    let ranges = ranges(&services)?;
    assert_eq!(ranges, 2 + 100 + 3000);
    Ok(())
}
