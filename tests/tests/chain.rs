//! Challenges that make rules: rule, request, job, copy, lock, end of the rule, deletion.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use weir_tests::{Run, run, steadily, wait_for, weir_binary};

/// Two sites that send to each other, with these keys of the catalogue and of the workload.
fn challenge(catalog: &str, workload: &str) -> String {
    format!(
        "name = \"chain\"\n[grid]\nname = \"chain\"\n[[grid.rse]]\nname = \"HERE\"\n[[grid.rse]]\nname = \"THERE\"\n[grid.storage]\n\
         durability = \"cache\"\n[grid.catalog]\n{catalog}\n[phases]\nramp = \"1 s\"\nhold = \"9 s\"\n[[workload]]\nkind = \"rates\"\n\
         file_size_min = \"500 kB\"\nfile_size_max = \"500 kB\"\nlifetime = \"6 s\"\n{workload}\nrates = [\
         {{ source = \"HERE\", destination = \"THERE\", rate = \"16 Mb/s\" }}, {{ source = \"THERE\", destination = \"HERE\", rate = \"8 Mb/s\" }}]\n"
    )
}

const THRESHOLDS: &str = "[[threshold]]\ntotal = true\nmetric = \"failed\"\nmax = 0\n\
    [[threshold]]\ntotal = true\nmetric = \"rule_to_ok_p95\"\nmax = \"60 s\"\n";

fn newest_run(folder: &Path) -> Option<PathBuf> {
    let runs = fs::read_dir(folder.join("runs")).ok()?;
    runs.map(|entry| entry.unwrap().path()).max()
}

fn report(folder: &Path) -> Value {
    let text = fs::read(newest_run(folder).unwrap().join("report.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Rows of a table of a run, as columns by name.
fn rows(folder: &Path, file: &str) -> Vec<HashMap<String, String>> {
    let mut rows = csv::Reader::from_path(newest_run(folder).unwrap().join(file)).unwrap();
    rows.deserialize().map(Result::unwrap).collect()
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(weir_binary());
    command
        .args(["challenge", "run", "chain.toml", "--out", "runs"])
        .current_dir(folder);
    command
}

#[test]
fn rules_bring_files_and_the_catalogue_deletes_them() -> Result<()> {
    // Wrong: a challenge that claims to test the chain goes round the catalogue, or deletes by itself.
    let folder = tempfile::tempdir()?;
    // The transfer service tells the catalogue of ends; nothing would come if it waited until it asks.
    let catalog = "poll = \"1h\"";
    fs::write(folder.path().join("chain.toml"), challenge(catalog, "") + THRESHOLDS)?;
    let mut check = Command::new(weir_binary());
    let checked = run(check
        .args(["challenge", "check", "chain.toml"])
        .current_dir(folder.path()))?
    .expect_ok()?;
    assert!(checked.stdout.contains("2 thresholds"), "{}", checked.stdout);
    let outcome = steadily(|| run(command(folder.path()).args(["--audit", "20%"])))?.expect_ok()?;
    assert!(outcome.stdout.contains("rule to OK took"), "{}", outcome.stdout);
    let report = report(folder.path());
    let (chain, totals) = (&report["chain"], &report["totals"]);
    let transfers = rows(folder.path(), "transfers.csv");
    let rules = rows(folder.path(), "rules.csv");
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    assert_eq!(number(&chain["rules"]), rules.len());
    assert_eq!(
        (number(&chain["ok"]), &chain["incomplete"], &chain["refused"]),
        (rules.len(), &0.into(), &0.into())
    );
    // The ledger is exact: every transfer belongs to a rule, and no rule has others.
    let files: usize = rules.iter().map(|rule| rule["files"].parse::<usize>().unwrap()).sum();
    assert_eq!((files, number(&totals["finished"])), (transfers.len(), transfers.len()));
    for transfer in &transfers {
        let rule = rules
            .iter()
            .filter(|rule| rule["rule_id"] == transfer["rule_id"])
            .count();
        assert_eq!((rule, transfer["state"].as_str()), (1, "finished"), "{transfer:?}");
        let time = |column: &str| transfer[column].parse::<f64>().context(column.to_owned()).unwrap();
        let way = ["requested_s", "submitted_s", "ended_s", "locked_s"].map(time);
        // The catalogue writes down that it submitted after the transfer service may have begun.
        assert!(way[0] <= way[1] && way[0] <= way[2] && way[2] <= way[3], "{transfer:?}");
    }
    for room in ["evaluation_s", "submission_s", "queue_s", "copy_s", "completion_s"] {
        assert!(chain["rooms"][room]["p95"].is_number(), "{room}: {chain}");
    }
    // The storages hold the replicas that the catalogue names.
    let checks = report["crosschecks"].as_array().unwrap();
    let there = checks
        .iter()
        .filter(|check| check["quantity"] == "bytes there after the drain");
    let there: Vec<_> = there.collect();
    assert_eq!(there.len(), 2, "{checks:?}");
    let is_kept = |check: &&&Value| check["catalogue"].as_u64().unwrap() > 0 && check["pass"] != false;
    assert!(there.iter().all(|check| is_kept(&check)), "{there:?}");
    let deletions = &chain["deletions"];
    assert_eq!(
        (number(&deletions["due"]), number(&deletions["done"])),
        (transfers.len(), transfers.len())
    );
    assert_eq!(number(&totals["deleted_files"]), transfers.len());
    assert!(
        number(&report["audit"]["files"]) > 0 && report["audit"]["failed"] == 0,
        "{}",
        report["audit"]
    );
    Ok(())
}

/// A call to the catalogue of a run that goes on, by the login of its account `root`.
struct Catalog {
    url: String,
    ca: String,
    token: String,
}

impl Catalog {
    fn of(folder: &Path) -> Option<Self> {
        let text = fs::read(newest_run(folder)?.join("scratch/grid.json")).ok()?;
        let grid: Value = serde_json::from_slice(&text).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (url, ca) = (text(&grid["catalog"]["url"])?, text(&grid["ca"]["file"])?);
        let password = fs::read_to_string(grid["catalog"]["password_file"].as_str()?).ok()?;
        let mut login = Command::new("curl");
        login
            .args(["-sS", "--cacert", &ca, "-D", "-", "-o", "/dev/null"])
            .args([
                "-H".to_owned(),
                "X-Rucio-Account: root".to_owned(),
                "-H".to_owned(),
                format!("X-Rucio-Username: {}", grid["catalog"]["user"].as_str()?),
                "-H".to_owned(),
                format!("X-Rucio-Password: {}", password.trim()),
                format!("{url}/auth/userpass"),
            ]);
        let heads = run(&mut login).ok()?.stdout;
        let mut heads = heads.lines().filter_map(|line| line.split_once(": "));
        let token = heads
            .find(|(name, _)| name.eq_ignore_ascii_case("x-rucio-auth-token"))?
            .1;
        Some(Self {
            url,
            ca,
            token: token.to_owned(),
        })
    }

    fn ask(&self, arguments: &[&str], path: &str) -> Result<Run> {
        let token = format!("X-Rucio-Auth-Token: {}", self.token);
        let mut curl = Command::new("curl");
        curl.args(["-sSf", "--cacert", &self.ca, "-H", &token])
            .args(arguments)
            .arg(format!("{}{path}", self.url));
        run(&mut curl)?.expect_ok()
    }

    fn rows(&self, path: &str) -> Vec<Value> {
        let list = self
            .ask(&[], path)
            .map_or_else(|_| String::new(), |answer| answer.stdout);
        let rows = list.lines().filter_map(|line| serde_json::from_str(line).ok());
        rows.collect()
    }

    /// A rule of the run with failed copies, and none whose first attempt still runs.
    fn failing_rule(&self) -> Option<String> {
        let rules = self.rows("/rules/?account=root&state=R").into_iter();
        let mut failing = rules.filter(|rule| rule["error"].is_string());
        failing.find_map(|rule| {
            let rule = rule["id"].as_str()?;
            let mut locks = self.rows(&format!("/rules/{rule}/locks")).into_iter();
            let is_settled = locks.all(|lock| lock["state"] == "OK" || self.has_attempted(&lock));
            is_settled.then(|| rule.to_owned())
        })
    }

    /// Whether an attempt to copy the file of a lock has ended.
    fn has_attempted(&self, lock: &Value) -> bool {
        let text = |key: &str| lock[key].as_str().unwrap().to_owned();
        let path = format!("/requests/history/{}/{}/{}", text("scope"), text("name"), text("rse"));
        self.ask(&[], &path).is_ok()
    }
}

#[test]
fn a_rule_that_does_not_come_says_why() -> Result<()> {
    // Wrong: the run waits for a file that nobody will bring, or blames the transfer service for what the catalogue knows.
    let folder = tempfile::tempdir()?;
    // The transfer service tries once; the catalogue tries again after ten seconds.
    let small = "name = \"THERE\"\nquota = \"600 kB\"\n";
    let text = challenge("", "lifetime = \"60 s\"")
        .replace("name = \"THERE\"\n", small)
        .replace("lifetime = \"6 s\"\n", "")
        .replace("[grid.catalog]\n", "[grid.transfer]\nretries = 0\n[grid.catalog]\n")
        .replace("hold = \"9 s\"\n", "hold = \"9 s\"\ndrain = \"2 s\"\n");
    fs::write(folder.path().join("chain.toml"), text)?;
    let mut running = command(folder.path());
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let limit = Duration::from_secs(60);
    let catalog = wait_for(limit, || Ok(Catalog::of(folder.path())))?;
    let rule = wait_for(limit, || Ok(catalog.failing_rule()))?;
    let end = "{\"options\": {\"lifetime\": 0}}";
    catalog.ask(&["-X", "PUT", "-d", end], &format!("/rules/{rule}"))?;
    running.wait()?;
    let rules = rows(folder.path(), "rules.csv");
    let ended = rules.iter().find(|row| row["rule_id"] == rule).unwrap();
    assert_eq!(ended["state"], "incomplete");
    let message = &ended["message"];
    assert!(
        message.starts_with("its rule was deleted, and not by this run; the last that the catalogue said of it: "),
        "{message}"
    );
    let transfers = rows(folder.path(), "transfers.csv");
    let failed: Vec<_> = transfers.iter().filter(|row| row["rule_id"] == rule).collect();
    let is_told = failed
        .iter()
        .all(|row| row["state"] == "failed" && row["party"] == "catalogue");
    assert!(!failed.is_empty() && is_told, "{failed:?}");
    // The others were withdrawn when the drain was over.
    let others = rules
        .iter()
        .filter(|row| row["rule_id"] != rule && row["state"] == "incomplete");
    let told = others
        .filter(|row| row["message"].contains("it was held back: ") && row["message"].contains("space"))
        .count();
    assert!(told > 0, "{rules:?}");
    let report = report(folder.path());
    // What its requests waited for meanwhile, by RSE.
    let gauges = report["gauges"].as_array().unwrap();
    let is_waiting = |gauge: &&Value| gauge["gauge"] == "requests-retry" && gauge["place"] == "rse-in:THERE";
    let waiting = gauges.iter().find(is_waiting).with_context(|| format!("{gauges:?}"))?;
    let values = waiting["values"].as_array().unwrap();
    assert!(
        values.iter().filter_map(Value::as_f64).any(|value| value >= 1.0),
        "{waiting}"
    );
    // Bytes of attempts that the catalogue repeated are no disagreement of counters.
    let checks = report["crosschecks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["pass"] != false), "{checks:?}");
    assert!(
        report["chain"]["stuck"].as_array().unwrap().len() > 1,
        "{}",
        report["chain"]
    );
    Ok(())
}
