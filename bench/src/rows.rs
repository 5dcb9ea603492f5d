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
    outcome::{Outcome, Round},
};

#[derive(Clone, Copy)]
enum Work {
    Get { tls: bool },
    Put { tls: bool },
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
        row("PUT plain 1 x 2 GB", Work::Put { tls: false }, false),
        row("PUT plain 8 x 256 MB", Work::Put { tls: false }, true),
        row("PUT TLS 1 x 2 GB", Work::Put { tls: true }, false),
        row("PUT TLS 8 x 256 MB", Work::Put { tls: true }, true),
        row("TPC pull TLS 1 x 2 GB", Work::Pull, false),
        row("TPC pull TLS 8x256 MB", Work::Pull, true),
        row("TPC push TLS 1 x 2 GB", Work::Push, false),
        row("TPC push TLS 8x256 MB", Work::Push, true),
    ]
}

impl Row {
    pub(crate) fn run(&self, lab: &Lab, rounds: usize) -> Result<Outcome> {
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
        Ok(Outcome {
            name: self.name,
            bytes: self.bytes(),
            files: self.files().len(),
            contenders: contenders.iter().map(|who| who.name).zip(results).collect(),
        })
    }

    fn bytes(&self) -> u64 {
        if self.many { SMALL * N_SMALL as u64 } else { LARGE }
    }

    fn can(&self, who: &Contender) -> bool {
        match self.work {
            Work::Get { .. } | Work::Put { .. } => true,
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
        let bytes = self.bytes() as f64;
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
                let base = who.door(tls);
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
            Work::Put { tls } => {
                let mut command = curl(lab, true);
                command
                    .arg("-T")
                    .arg(lab.files.join(file))
                    .args(["-o", "/dev/null", "-w", "%{http_code}"]);
                command.arg(format!("{}/up-{file}", who.door(tls)));
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
            Work::Put { tls } => who.door(tls),
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
