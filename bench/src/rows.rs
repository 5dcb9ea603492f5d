//! The rows: what is done, by whom it can be done, and how a round is timed.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use weir_tests::run;

use crate::{
    contender::Contender,
    lab::{LARGE, Lab, N_SMALL, SMALL},
    stats::median,
};

#[derive(Clone, Copy)]
enum Work {
    Get { tls: bool },
    Put,
    Pull,
    Push,
}

pub(crate) struct Row {
    pub(crate) name: &'static str,
    work: Work,
    many: bool,
}

/// Every row, in the order of the table.
pub(crate) fn all() -> Vec<Row> {
    let row = |name, work, many| Row { name, work, many };
    vec![
        row("GET plain 1 x 2 GB", Work::Get { tls: false }, false),
        row("GET plain 8 x 256 MB", Work::Get { tls: false }, true),
        row("GET TLS 1 x 2 GB", Work::Get { tls: true }, false),
        row("GET TLS 8 x 256 MB", Work::Get { tls: true }, true),
        row("PUT TLS 1 x 2 GB", Work::Put, false),
        row("PUT TLS 8 x 256 MB", Work::Put, true),
        row("TPC pull TLS 1 x 2 GB", Work::Pull, false),
        row("TPC pull TLS 8x256 MB", Work::Pull, true),
        row("TPC push TLS 1 x 2 GB", Work::Push, false),
        row("TPC push TLS 8x256 MB", Work::Push, true),
    ]
}

struct Round {
    rate: f64,
    cpu_per_gb: f64,
    peak: f64,
}

impl Row {
    pub(crate) fn run(&self, lab: &Lab, rounds: usize) -> Result<()> {
        let contenders: Vec<&Contender> = lab.contenders.iter().filter(|who| self.can(who)).collect();
        let mut results: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
        // Round 0 warms caches and connections and is not counted.
        for round in 0..=rounds {
            for (who, results) in contenders.iter().zip(&mut results) {
                let measured = self
                    .round(lab, who)
                    .with_context(|| format!("{} of {}", self.name, who.name))?;
                if round > 0 {
                    results.push(measured);
                }
            }
        }
        for (who, theirs) in contenders.iter().zip(&results) {
            let ratio = median(
                results[0]
                    .iter()
                    .zip(theirs)
                    .map(|(ours, theirs)| ours.rate / theirs.rate)
                    .collect(),
            );
            let cpu = median(
                results[0]
                    .iter()
                    .zip(theirs)
                    .map(|(ours, theirs)| ours.cpu_per_gb / theirs.cpu_per_gb)
                    .collect(),
            );
            let of = |figure: fn(&Round) -> f64| median(theirs.iter().map(figure).collect());
            println!(
                "{:<22} {:<7} {:>9.0} {:>9.2} {:>9.0} {:>8.2}   CPU {cpu:.2}",
                self.name,
                who.name,
                of(|round| round.rate) / 1e6,
                of(|round| round.cpu_per_gb),
                of(|round| round.peak) / 1e6,
                ratio
            );
        }
        Ok(())
    }

    fn can(&self, who: &Contender) -> bool {
        match self.work {
            Work::Get { tls: false } => who.plain.is_some(),
            Work::Get { tls: true } => true,
            Work::Put => who.writes,
            Work::Pull | Work::Push => who.second.is_some(),
        }
    }

    fn files(&self) -> Vec<String> {
        if self.many {
            (1..=N_SMALL).map(|index| format!("small{index}")).collect()
        } else {
            vec!["large".into()]
        }
    }

    fn round(&self, lab: &Lab, who: &Contender) -> Result<Round> {
        let files = self.files();
        who.reset_peak()?;
        let before = who.usage()?;
        let start = Instant::now();
        std::thread::scope(|scope| {
            let workers: Vec<_> = files
                .iter()
                .map(|file| scope.spawn(|| self.one(lab, who, file)))
                .collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
        })?;
        let seconds = start.elapsed().as_secs_f64();
        let after = who.usage()?;
        self.clean(lab, who, &files)?;
        let bytes = if self.many { SMALL * N_SMALL as u64 } else { LARGE } as f64;
        Ok(Round {
            rate: bytes / seconds,
            cpu_per_gb: (after.cpu_seconds - before.cpu_seconds) / (bytes / 1e9),
            peak: after.peak_bytes,
        })
    }

    /// Moves one file, and makes sure that it was moved.
    fn one(&self, lab: &Lab, who: &Contender, file: &str) -> Result<()> {
        match self.work {
            Work::Get { tls } => {
                let base = if tls {
                    &who.tls
                } else {
                    who.plain.as_ref().context("no plain door")?
                };
                let mut command = curl(lab, tls);
                command.args([
                    "-o",
                    "/dev/null",
                    "-w",
                    "%{http_code} %{size_download}",
                    &format!("{base}/{file}"),
                ]);
                let said = run(&mut command)?.expect_ok()?.stdout;
                let size = if self.many { SMALL } else { LARGE };
                ensure!(said == format!("200 {size}"), "got {said}");
            }
            Work::Put => {
                let mut command = curl(lab, true);
                command
                    .arg("-T")
                    .arg(lab.files.join(file))
                    .args(["-o", "/dev/null", "-w", "%{http_code}"]);
                command.arg(format!("{}/up-{file}", who.tls));
                let said = run(&mut command)?.expect_ok()?.stdout;
                ensure!(said.starts_with("20"), "got {said}");
            }
            Work::Pull | Work::Push => {
                let pull = matches!(self.work, Work::Pull);
                let second = who.second.as_ref().context("no second")?;
                let (source, target) = (format!("{}/{file}", who.tls), format!("{second}/up-{file}"));
                let (active, header, passive) = if pull {
                    (&target, "Source", &source)
                } else {
                    (&source, "Destination", &target)
                };
                let mut command = curl(lab, true);
                command.args([
                    "-X",
                    "COPY",
                    "-H",
                    &format!("{header}: {passive}"),
                    "-H",
                    "Credential: none",
                ]);
                command
                    .args(["-H", "Overwrite: T", "-K"])
                    .arg(self.forwarded(lab)?)
                    .arg(active);
                let said = run(&mut command)?.expect_ok()?.stdout;
                ensure!(said.to_lowercase().contains("success"), "the copy said {said}");
            }
        }
        Ok(())
    }

    /// The token for the passive side, in a file of mode 0600 and not on a command line.
    #[allow(clippy::unused_self, reason = "reads as part of the row")]
    fn forwarded(&self, lab: &Lab) -> Result<std::path::PathBuf> {
        let path = lab.curl.with_extension("forward");
        if !path.exists() {
            let header = format!("header = \"TransferHeaderAuthorization: Bearer {}\"\n", lab.token);
            weir_tests::write_private(&path, &header)?;
        }
        Ok(path)
    }

    fn clean(&self, lab: &Lab, who: &Contender, files: &[String]) -> Result<()> {
        let base = match self.work {
            Work::Get { .. } => return Ok(()),
            Work::Put => &who.tls,
            Work::Pull | Work::Push => who.second.as_ref().context("no second")?,
        };
        for file in files {
            run(curl(lab, true).args(["-X", "DELETE", "-f", &format!("{base}/up-{file}")]))?.expect_ok()?;
        }
        Ok(())
    }
}

fn curl(lab: &Lab, with_token: bool) -> Command {
    let mut command = Command::new("curl");
    command
        .args([
            "-sS",
            "--max-time",
            &Duration::from_secs(120).as_secs().to_string(),
            "--cacert",
        ])
        .arg(&lab.ca);
    if with_token {
        command.arg("-K").arg(&lab.curl);
    }
    command
}
