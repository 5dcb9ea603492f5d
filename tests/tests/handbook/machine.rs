//! An operator's machine: it has the programs that a page calls by name.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use weir_tests::{Services, run, weir_binary};

/// Blocks of a language on a page below a heading, up to the next one.
pub(crate) fn blocks(page: &str, heading: &str, language: &str) -> Vec<String> {
    let section = page
        .split(&format!("\n## {heading}\n"))
        .nth(1)
        .expect("the page has this heading");
    let section = section.split("\n## ").next().unwrap();
    let begin = format!("```{language}\n");
    let blocks = section.split(&begin).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

/// The command that the unit runs for a service.
pub(crate) fn started_by_the_unit(service: &str) -> String {
    let unit = include_str!("../../../deploy/weir@.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/weir "));
    start.unwrap().replace("%i", service)
}

pub(crate) struct Machine {
    pub(crate) services: Services,
    /// Names and places of the page, and what is in their place here.
    pub(crate) names: Vec<(String, String)>,
    /// Variables of the operator's shell.
    pub(crate) environment: Vec<(&'static str, String)>,
}

impl Machine {
    /// Texts of the page with this machine's names.
    pub(crate) fn with_names(&self, text: &str) -> String {
        let replace = |text: String, (name, here): &(String, String)| text.replace(name, here);
        self.names.iter().fold(text.to_owned(), replace)
    }

    /// The output of a script of the page.
    pub(crate) fn sh(&self, script: &str) -> String {
        let script = format!("set -euo pipefail\n{}", self.with_names(script));
        let path = format!(
            "{}:{}",
            weir_binary().parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(&script).env("PATH", path);
        bash.envs(self.environment.iter().map(|(name, value)| (name, value)));
        run(&mut bash)
            .unwrap()
            .expect_ok()
            .unwrap_or_else(|error| panic!("{script}: {error:#}"))
            .stdout
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.services.file(name).display().to_string()
    }
}

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
