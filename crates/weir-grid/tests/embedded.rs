//! A whole grid in this process, spoken to through its doors.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use http::{Request, StatusCode};
use weir_grid::{EmbeddedGrid, GridDescription, GridError, GridOptions};
use weir_http::{Identity, body};
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

fn identity(certificate: &Path, key: &Path) -> Identity {
    Identity {
        chain_pem: std::fs::read_to_string(certificate).unwrap(),
        key_pem: std::fs::read_to_string(key).unwrap(),
    }
}

/// Programs that know no tokens, Rucio with a robot's certificate among them, could use no embedded grid.
#[tokio::test(flavor = "multi_thread")]
async fn the_users_certificate_opens_every_door() {
    let dir = tempfile::tempdir().unwrap();
    let grid = grid("name = \"two\"\nvo = \"dune\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n");
    let running = EmbeddedGrid::start(&grid, &dir.path().join("g"), GridOptions::default())
        .await
        .unwrap();
    let description = running.description().clone();
    let user = description.user.clone().unwrap();
    for secret in [&user.key, &user.both] {
        assert_eq!(std::fs::metadata(secret).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(
        identity(&user.both, &user.key).chain_pem.matches("PRIVATE KEY").count(),
        2
    );
    let ask = async |who: &Identity, method: &str, url: String| {
        let client = running.client().showing(who).unwrap();
        let request = Request::builder().method(method).uri(url).body(body::full("content"));
        let response = client.send(request.unwrap()).await.unwrap();
        let status = response.status();
        let text = body::read_limited(response.into_body(), 1 << 20, Duration::from_secs(30)).await;
        (status, String::from_utf8(text.unwrap().to_vec()).unwrap())
    };
    let holder = identity(&user.certificate, &user.key);
    // A certificate that the grid gave a door is nobody's.
    let folder = running.dir().join("identities");
    let door = identity(&folder.join("ALPHA.pem"), &folder.join("ALPHA.key"));
    for rse in &description.rses {
        let url = format!("{}/d/f", rse.url);
        assert_eq!(ask(&door, "PUT", url.clone()).await.0, StatusCode::FORBIDDEN);
        for (method, status) in [("PUT", 201), ("GET", 200), ("DELETE", 204)] {
            let (answered, text) = ask(&holder, method, url.clone()).await;
            assert_eq!(answered.as_u16(), status, "{method} {url}: {text}");
        }
    }
    let whoami = || format!("{}/whoami", description.transfer.url);
    let (status, text) = ask(&holder, "GET", whoami()).await;
    assert!(status.is_success() && text.contains("\"vos\":[\"dune\"]"), "{text}");
    assert!(text.contains("\"is_root\":false") && text.contains(&user.dn), "{text}");
    assert_eq!(ask(&door, "GET", whoami()).await.0, StatusCode::FORBIDDEN);
    running.shutdown().await.unwrap();
}

/// Rucio asks for tokens whose audience is a storage's host, without scheme and port.
#[tokio::test(flavor = "multi_thread")]
async fn a_bare_host_is_an_audience_of_its_storage_alone() {
    let dir = tempfile::tempdir().unwrap();
    let grid = grid("name = \"two\"\n[[rse]]\nname = \"ALPHA\"\n[[rse]]\nname = \"BETA\"\n");
    let running = EmbeddedGrid::start(&grid, &dir.path().join("g"), GridOptions::default())
        .await
        .unwrap();
    let (alpha, beta) = (&running.description().rses[0], &running.description().rses[1]);
    let tokens = running.storage_tokens(&RseName::new("ALPHA").unwrap()).unwrap();
    let host = alpha.url.parse::<http::Uri>().unwrap().host().unwrap().to_owned();
    let token = tokens.token("storage.create:/", &host).await.unwrap();
    let there = put(&running, &format!("{}/d/f", alpha.url), Some(token.expose())).await;
    assert_eq!(there, StatusCode::CREATED);
    let elsewhere = put(&running, &format!("{}/d/f", beta.url), Some(token.expose())).await;
    assert_eq!(elsewhere, StatusCode::UNAUTHORIZED);
    running.shutdown().await.unwrap();
}
