//! Databases for tests: each test runs on both.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_http::TrustRoots;
use weir_store::postgres::{Connector, testing::Server};

use super::Database;

/// A database, with what has to live as long.
pub(crate) struct Scratch {
    pub(crate) database: Database,
    _directory: Option<tempfile::TempDir>,
}

impl Scratch {
    pub(crate) fn sqlite(migrations: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            database: Database::open_file(&directory.path().join("catalog.db"), migrations).unwrap(),
            _directory: Some(directory),
        }
    }

    pub(crate) fn postgres(migrations: &[&str]) -> Self {
        let connector = Connector::new(&Server::shared().database(), &TrustRoots::default()).unwrap();
        Self {
            database: Database::on_server(connector, migrations).unwrap(),
            _directory: None,
        }
    }
}

/// Makes two tests of each function that takes a [`Database`].
macro_rules! on_both {
    ($migrations:ident; $($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let scratch = $crate::database::testing::Scratch::sqlite(super::$migrations);
                super::$test(scratch.database.clone()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if weir_store::postgres::testing::wanted() {
                    let scratch = $crate::database::testing::Scratch::postgres(super::$migrations);
                    super::$test(scratch.database.clone()).await;
                }
            })*
        }
    };
}
pub(crate) use on_both;
