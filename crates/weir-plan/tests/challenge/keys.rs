//! The keys that the parser accepts are those that are listed.

use weir_model::file::{Key, Table};
use weir_plan::CHALLENGE_TABLES;

use crate::{GRID, RATES, problems};

/// What a fault needs beside a key so that the key is looked at.
fn around(key: &str) -> &'static str {
    match key {
        "kind" => "rse = \"A\"\n",
        "rate" | "rse" => "kind = \"slow-read\"\n",
        "share" => "kind = \"uneven\"\n",
        "way" => "kind = \"connections\"\nrse = \"*\"\n",
        "limit" => "kind = \"connections\"\n",
        "size" => "kind = \"window\"\n",
        "factor" => "kind = \"volume\"\n",
        "workload" => "kind = \"pause\"\n",
        "error" | "mode" | "above" => "kind = \"failures\"\n",
        "server" => "kind = \"slow-server\"\n",
        "to" => "kind = \"reroute\"\n",
        "rise" => "kind = \"outage\"\nshape = \"ramp\"\n",
        "period" | "on" => "kind = \"outage\"\nshape = \"periodic\"\n",
        "delay" => "kind = \"slow-close\"\n",
        _ => "kind = \"outage\"\n",
    }
}

/// A key would be in the handbook but not be read: each listed key, given a date, must be complained about by name and
/// for its type, and no table may list a key twice.
#[test]
fn every_listed_key_is_read() {
    let place = |table: &Table, key: &Key| {
        let line = format!("{} = 1979-05-27\n", key.name);
        let head = format!("name = \"c\"\n{GRID}[[workload]]\n");
        match table.title {
            "The challenge" if key.name == "name" => format!("{line}{GRID}"),
            "The challenge" if key.name == "grid" => format!("{line}name = \"c\"\n"),
            "The challenge" if key.name == "workload" => format!("{line}name = \"c\"\n{GRID}"),
            "The challenge" => format!("{line}name = \"c\"\n{GRID}[[workload]]\n{RATES}"),
            "rates = [{ … }]" => format!("{head}kind = \"rates\"\nrates = [{{ {} }}]\n", line.trim()),
            "[phases]" => format!("{head}{RATES}[phases]\n{line}"),
            "[[threshold]]" => {
                let metric = if key.name == "metric" {
                    ""
                } else {
                    "metric = \"ratio\"\n"
                };
                let total = if ["min", "max", "metric"].contains(&key.name) {
                    "total = true\n"
                } else {
                    ""
                };
                format!("{head}{RATES}[[threshold]]\n{metric}{total}{line}")
            }
            "[[fault]]" => format!("{head}{RATES}[[fault]]\n{}{line}", around(key.name)),
            title => {
                let kind = title.strip_prefix("[[workload]] ").unwrap();
                format!(
                    "{head}{}{line}",
                    if key.name == "kind" {
                        String::new()
                    } else {
                        format!("{kind}\n")
                    }
                )
            }
        }
    };
    for table in CHALLENGE_TABLES {
        for (at, key) in table.keys.iter().enumerate() {
            assert!(
                !table.keys[..at].iter().any(|other| other.name == key.name),
                "{} twice",
                key.name
            );
            let text = place(table, key);
            let wrong = format!("{}: must be ", key.name);
            let found = problems(&text)
                .lines()
                .any(|line| line.contains(&wrong) && line.contains("not a datetime"));
            assert!(
                found,
                "{} of {} is not read:\n{}",
                key.name,
                table.title,
                problems(&text)
            );
        }
    }
}
