//! A whole grid in this process, spoken to through its doors.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

use http::{Request, StatusCode};
use weir_grid::{EmbeddedGrid, GridDescription, GridError, GridOptions};
use weir_http::body;
use weir_model::{Grid, RseName};

const SHIPPED: &str = "../../grids/uk.toml";

fn grid(text: &str) -> Grid {
    Grid::parse(text, "grid.toml".as_ref()).unwrap()
}

async fn put(grid: &EmbeddedGrid, url: &str, token: Option<&str>) -> StatusCode {
    let mut request = Request::put(url);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    grid.client()
        .send(request.body(body::full("content")).unwrap())
        .await
        .unwrap()
        .status()
}

/// Clients tell storage elements apart by `scheme://host`, without the port: two RSEs on one host would be one.
#[tokio::test(flavor = "multi_thread")]
async fn six_rses_are_six_storage_elements() {
    let dir = tempfile::tempdir().unwrap();
    let grid = Grid::load(Path::new(SHIPPED)).unwrap();
    assert_eq!(grid.rses.len(), 6);
    let running = EmbeddedGrid::start(&grid, &dir.path().join("g"), GridOptions::default())
        .await
        .unwrap();
    let without_port = |url: &str| url.rsplit_once(':').unwrap().0.to_owned();
    let hosts: BTreeSet<String> = running
        .description()
        .rses
        .iter()
        .map(|rse| without_port(&rse.url))
        .collect();
    assert_eq!(hosts.len(), 6, "{hosts:?}");
    assert_eq!(GridDescription::read(running.dir()).unwrap(), *running.description());
    let doors = weir_grid::knock(running.description()).await.unwrap();
    assert!(doors.len() == 8 && doors.iter().all(|door| door.up), "{doors:?}");
    running.shutdown().await.unwrap();
    assert!(matches!(
        GridDescription::read(&dir.path().join("g")),
        Err(GridError::NotRunning { .. })
    ));
}

/// A token for one storage must not open another: that is what audiences are for.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_opens_the_door_it_was_made_for() {
    let dir = tempfile::tempdir().unwrap();
    let grid = grid("name = \"two\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n");
    let running = EmbeddedGrid::start(&grid, &dir.path().join("g"), GridOptions::default())
        .await
        .unwrap();
    let description = running.description().clone();
    let (alpha, beta) = (&description.rses[0], &description.rses[1]);
    let tokens = running.storage_tokens(&RseName::new("ALPHA").unwrap()).unwrap();
    let token = tokens.token("storage.create:/d", &alpha.audience).await.unwrap();

    assert_eq!(
        put(&running, &format!("{}/d/f", alpha.url), Some(token.expose())).await,
        StatusCode::CREATED
    );
    assert_eq!(
        put(&running, &format!("{}/e/f", alpha.url), Some(token.expose())).await,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        put(&running, &format!("{}/d/f", beta.url), Some(token.expose())).await,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(
        put(&running, &format!("{}/d/f", alpha.url), None).await,
        StatusCode::UNAUTHORIZED
    );
    assert!(alpha.area.as_ref().unwrap().join("d/f").exists());
    running.shutdown().await.unwrap();
}

/// A start that fails half-way must leave nothing behind: the next one would find ports and directory taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_leaves_the_directory_free() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("g");
    let grid = grid("name = \"one\"\n[[rse]]\nname = \"ALPHA\"\n");
    EmbeddedGrid::start(&grid, &dir, GridOptions::default())
        .await
        .unwrap()
        .shutdown()
        .await
        .unwrap();
    // The storage's area cannot be a directory if something else has its name.
    std::fs::remove_dir_all(dir.join("storage")).unwrap();
    std::fs::write(dir.join("storage"), "").unwrap();
    EmbeddedGrid::start(&grid, &dir, GridOptions::default())
        .await
        .unwrap_err();
    std::fs::remove_file(dir.join("storage")).unwrap();
    let again = EmbeddedGrid::start(&grid, &dir, GridOptions::default()).await.unwrap();
    drop(again);
    assert!(weir_grid::GridProcess::find(&dir).unwrap().is_none());
}
