//! The endpoint's own account of the bytes, whatever its clients do.

use std::time::{Duration, Instant};

use weir_http::body;
use weir_storage::Durability;

use super::lab::{Endpoint, Lab, noise};

const SIZE: usize = 1_500_000;

/// Sum of a counter over all its labels that contain `with`.
async fn total(at: &Endpoint, name: &str, with: &str) -> u64 {
    let page = at.get("/.well-known/weir/metrics").await.text();
    page.lines()
        .filter(|line| line.starts_with(name) && line.contains(with))
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// Clients leave when they like, also while the whole file is being put in place: each visible file must have been counted,
/// byte for byte, and nothing else as complete. Otherwise two counters of one transfer differ for no reason.
#[tokio::test]
async fn visible_files_are_the_counted_ones() {
    let lab = Lab::new();
    let from = lab.endpoint("from", |_| {}).await;
    // The disk makes the last step long.
    let at = lab
        .endpoint("at", |config| config.areas[0].durability = Durability::Full)
        .await;
    from.put("/f", noise(SIZE)).await.expect(201);
    let source = from.url("/f");
    // One copy to its end says how long they take; the others are left at moments around that.
    let began = Instant::now();
    at.pull("/whole", &source, &[]).await.copied();
    let usual = began.elapsed();
    let token = format!("Bearer {}", lab.all());
    let headers = [("Source", source.as_str()), ("TransferHeaderAuthorization", &token)];
    for number in 0..80 {
        let path = format!("/{number}");
        let response = at.begin("COPY", &path, &headers, body::empty()).await;
        tokio::time::sleep(usual * number / 60).await;
        drop(response);
    }
    while total(&at, "weir_storage_transfers_active", "pull").await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let visible = at.names().len() as u64;
    let completed = total(&at, "weir_storage_received_bytes_total", "outcome=\"completed\"").await;
    assert_eq!(completed, visible * SIZE as u64, "{visible} files are visible");
}
