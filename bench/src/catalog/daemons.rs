//! Rucio's daemons, a file at a time: the costs that the simulator's model of Rucio is set up with.

use anyhow::{Context as _, Result};
use serde_json::Value;
use weir_tests::{Postgres, RucioHome, free_port, run};

/// The row's name.
pub(super) const NAME: &str = "the daemons of Rucio";

/// Files of a rule at scale 1.
const FILES: f64 = 2_000.0;

/// Errors only; HTTP copies by FTS.
const CONVEYOR: &str = "loglevel = ERROR\n[conveyor]\nscheme = davs\ntransfertool = fts3\n";

/// Prints the milliseconds that each daemon of Rucio 41.5.1 takes for a file, on PostgreSQL.
pub(super) fn print(rounds: usize, scale: f64) -> Result<Value> {
    let files = (FILES * scale).max(100.0) as u64;
    let mut found = Vec::new();
    for _ in 0..rounds {
        let folder = tempfile::tempdir()?;
        let (postgres, port) = (Postgres::durable()?, free_port()?);
        let home = RucioHome::lay(folder.path().to_owned(), postgres.socket(), port, CONVEYOR)?;
        let _server = home.server(&["-w", "2", "-k", "gthread", "--threads", "8"])?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/rucio/daemons.py");
        let told = run(home.command("python").arg(script).arg(files.to_string()))?.expect_ok()?;
        let line = told.stdout.lines().last().context("the daemons' times")?;
        println!("Rucio 41.5.1, milliseconds for a file of {files}: {line}");
        found.push(serde_json::from_str(line)?);
    }
    Ok(Value::Array(found))
}
