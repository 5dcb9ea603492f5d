//! docs/small-experiment.md.

use std::{fs, path::Path, process::Command};

use weir_tests::{peers, run, weir_binary};

use crate::machine::blocks;

const PAGE: &str = include_str!("../../../docs/small-experiment.md");

/// Stops the grid, however the test ends.
struct Grid<'a>(&'a Path);

impl Drop for Grid<'_> {
    fn drop(&mut self) {
        let mut down = Command::new(weir_binary());
        let _ = run(down.args(["grid", "down"]).arg(self.0.join("lab")));
    }
}

#[test]
fn an_experiment_that_follows_the_page_has_copies_at_three_sites() {
    if !peers() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let grid = blocks(PAGE, "1. Three sites", "toml");
    fs::write(folder.path().join("lab.toml"), &grid[0]).unwrap();
    let _grid = Grid(folder.path());
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers/bin");
    let path = format!(
        "{}:{}:{}",
        weir_binary().parent().unwrap().display(),
        clients.display(),
        std::env::var("PATH").unwrap()
    );
    // One shell: the next steps have the exports of a step.
    let mut script = "set -euo pipefail\n".to_owned();
    for heading in [
        "1. Three sites",
        "2. People",
        "3. A run of the detector",
        "4. Two copies for a month",
        "5. Analysis",
        "6. The end",
    ] {
        for block in blocks(PAGE, heading, "sh") {
            script = format!("{script}echo '## {heading}'\n{block}");
        }
    }
    let mut bash = Command::new("bash");
    bash.arg("-c")
        .arg(&script)
        .current_dir(folder.path())
        .env("PATH", path)
        .env("HOME", folder.path())
        .env("RUCIO_HOME", folder.path())
        .env("PYTHONWARNINGS", "ignore")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let told = run(&mut bash).unwrap();
    assert!(told.ok(), "{}\n{}", told.stdout, told.stderr);
    let section = |heading: &str| {
        let rest = told
            .stdout
            .split(&format!("## {heading}\n"))
            .skip(1)
            .collect::<String>();
        rest.split("## ").next().unwrap().to_owned()
    };
    assert!(section("1. Three sites").contains("ARCHIVE\nUNI"), "{}", told.stdout);
    let copies = section("4. Two copies for a month");
    assert!(
        copies.contains("6 of 6 there") && copies.contains("ARCHIVE: https://"),
        "{copies}"
    );
    let end = section("6. The end");
    assert!(end.contains("DAQ: https://") && !end.contains("UNI: https://"), "{end}");
    assert!(!folder.path().join("lab/grid.json").exists());
}
