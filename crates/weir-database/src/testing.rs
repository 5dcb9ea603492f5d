//! Databases for tests: each test runs on both.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a failed test may panic")]

use weir_http::TrustRoots;
use weir_store::postgres::{Connector, testing::Server};

use super::Database;

/// A database, with the objects that must live as long.
#[derive(Debug)]
pub struct Scratch {
    /// The database.
    pub database: Database,
    _directory: Option<tempfile::TempDir>,
}

impl Scratch {
    /// One on SQLite.
    pub fn sqlite(migrations: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            database: Database::open_file(&directory.path().join("catalog.db"), migrations).unwrap(),
            _directory: Some(directory),
        }
    }

    /// One on a PostgreSQL server for tests.
    pub fn postgres(migrations: &[&str]) -> Self {
        let connector = Connector::new(&Server::shared().database(), &TrustRoots::default()).unwrap();
        Self {
            database: Database::on_server(connector, migrations).unwrap(),
            _directory: None,
        }
    }
}

/// Makes two tests of each function that takes a [`Database`].
#[macro_export]
macro_rules! on_both {
    ($migrations:ident; $($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let scratch = $crate::testing::Scratch::sqlite(super::$migrations);
                super::$test(scratch.database.clone()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                if weir_store::postgres::testing::wanted() {
                    let scratch = $crate::testing::Scratch::postgres(super::$migrations);
                    super::$test(scratch.database.clone()).await;
                }
            })*
        }
    };
}
