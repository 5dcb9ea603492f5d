//! The process of one site: started, stopped and killed on purpose, and started again when it died.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_auth::files;
use weir_model::SiteName;

use crate::{GridError, GridProcess, lock};

/// Pause before a process that died is started again; it doubles each time, up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A process that lived this long had started well: the pause begins anew.
const WELL: Duration = Duration::from_secs(60);
/// Where distributions keep libfaketime.
const CLOCKS: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The program that runs the storages of one site ([`crate::SiteStorages`]) until it receives SIGTERM.
#[derive(Debug, Clone, Default)]
pub struct SiteProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; the name of the site is added as the last.
    pub arguments: Vec<OsString>,
    /// Whether the processes end with the grid that started them, however it ends: their standard input is a pipe from it.
    pub is_bound: bool,
    /// A library that makes their clocks wrong on demand ([`clock_library`]); none if they tell the time.
    pub clock: Option<PathBuf>,
}

/// The libfaketime of this machine; none if it is not installed.
pub fn clock_library() -> Option<PathBuf> {
    CLOCKS.iter().map(PathBuf::from).find(|path| path.exists())
}

/// The state that the process of a site is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SiteOrder {
    /// It runs; if it died, another starts.
    #[default]
    Run,
    /// It is stopped (SIGSTOP): its connections stay open, and nothing answers.
    Freeze,
    /// It is killed (SIGKILL), and none starts.
    Kill,
}

/// The history of a site's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SiteFigures {
    /// How long it was stopped.
    pub frozen: Duration,
    /// How long there was none after it had been killed.
    pub killed: Duration,
    /// How often it was killed on purpose.
    pub n_killed: u32,
    /// How often it ended otherwise, and was not asked to.
    pub n_died: u32,
}

#[derive(Debug)]
pub(crate) struct SiteProcess {
    pub(crate) site: SiteName,
    folder: PathBuf,
    log: PathBuf,
    /// None once it has ended and that was said.
    child: Option<Child>,
    started: Instant,
    order: SiteOrder,
    ordered: Instant,
    /// When another is started for one that died.
    again: Option<Instant>,
    pause: Duration,
    figures: SiteFigures,
}

impl SiteProcess {
    /// Starts it, without waiting for it.
    pub(crate) fn start(program: &SiteProgram, site: &SiteName, dir: &Path, log: PathBuf) -> Result<Self, GridError> {
        let folder = lock::site_folder(dir, site.as_str());
        let now = Instant::now();
        let mut process = Self {
            site: site.clone(),
            folder,
            log,
            child: None,
            started: now,
            order: SiteOrder::Run,
            ordered: now,
            again: None,
            pause: PAUSE,
            figures: SiteFigures::default(),
        };
        process.spawn(program)?;
        Ok(process)
    }

    fn spawn(&mut self, program: &SiteProgram) -> Result<(), GridError> {
        let failed = |source: io::Error| GridError::Access {
            path: program.program.clone(),
            source,
        };
        let output = files::open_log(&self.log).map_err(failed)?;
        let mut command = Command::new(&program.program);
        command
            .args(&program.arguments)
            .arg(self.site.as_str())
            .stdin(if program.is_bound {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            // Ctrl-C is for the grid's process, which stops its sites after the transfer service.
            .process_group(0);
        if let Some(library) = &program.clock {
            if !self.clock().exists() {
                self.skew(Duration::ZERO)?;
            }
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME_TIMESTAMP_FILE", self.clock())
                .env("FAKETIME_CACHE_DURATION", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        self.child = Some(command.spawn().map_err(failed)?);
        self.started = Instant::now();
        self.again = None;
        Ok(())
    }

    /// The file that libfaketime reads.
    fn clock(&self) -> PathBuf {
        self.folder.join("clock")
    }

    /// Sets its clock back by this time.
    pub(crate) fn skew(&self, behind: Duration) -> Result<(), GridError> {
        let access = |source| GridError::Access {
            path: self.clock(),
            source,
        };
        fs::create_dir_all(&self.folder).map_err(access)?;
        let text = format!("-{:.3}\n", behind.as_secs_f64());
        files::write_private(&self.clock(), text.as_bytes()).map_err(access)
    }

    /// Its pid, whatever started it.
    pub(crate) fn pid(&self) -> Option<u32> {
        let found = GridProcess::find(&self.folder);
        found.ok().flatten().map(|process| process.pid())
    }

    /// Gives it a state.
    ///
    /// # Errors
    /// [`GridError::SiteForeign`] if it was not started here; [`GridError::Access`] if another one does not start.
    pub(crate) fn order(&mut self, program: &SiteProgram, order: SiteOrder) -> Result<(), GridError> {
        if order == self.order {
            return Ok(());
        }
        if self.child.is_none()
            && let Some(pid) = self.pid()
        {
            return Err(GridError::SiteForeign {
                site: self.site.to_string(),
                pid,
            });
        }
        self.leave();
        self.order = order;
        self.ordered = Instant::now();
        match order {
            SiteOrder::Run if self.child.is_none() => self.spawn(program),
            SiteOrder::Run => Ok(()),
            SiteOrder::Freeze => {
                self.signal(Signal::STOP);
                Ok(())
            }
            SiteOrder::Kill => {
                self.kill();
                self.figures.n_killed += 1;
                Ok(())
            }
        }
    }

    /// Ends the state that it was ordered to have.
    fn leave(&mut self) {
        self.figures = self.figures();
        if self.order == SiteOrder::Freeze {
            self.signal(Signal::CONT);
        }
    }

    /// The child has not been waited for, so that nobody else has its pid.
    fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().map(Child::id);
        if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw) {
            let _ended_before = kill_process(pid, signal);
        }
    }

    /// Kills it, if it was started here.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ended_before = child.kill();
            let _reaped = child.wait();
        }
    }

    pub(crate) fn figures(&self) -> SiteFigures {
        let mut figures = self.figures;
        match self.order {
            SiteOrder::Run => {}
            SiteOrder::Freeze => figures.frozen += self.ordered.elapsed(),
            SiteOrder::Kill => figures.killed += self.ordered.elapsed(),
        }
        figures
    }

    /// Its end, if it has ended since the last look. After a pause [`Self::restart`] starts a process again that died, and none
    /// that was asked to stop.
    pub(crate) fn ended(&mut self) -> Option<GridError> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        if !status.success() {
            self.figures.n_died += 1;
            if self.started.elapsed() > WELL {
                self.pause = PAUSE;
            }
            self.again = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        Some(GridError::SiteEnded {
            site: self.site.to_string(),
            status: status.to_string(),
            said: last_line(&self.log),
            log: self.log.clone(),
        })
    }

    /// Starts another for one that died, if it is time and nobody else has; says whether it did.
    pub(crate) fn restart(&mut self, program: &SiteProgram) -> Result<bool, GridError> {
        if self.order == SiteOrder::Kill || self.again.is_none_or(|at| at > Instant::now()) {
            return Ok(false);
        }
        if self.pid().is_some() {
            self.again = None;
            return Ok(false);
        }
        self.again = Some(Instant::now() + self.pause);
        self.spawn(program).map(|()| true)
    }
}

/// The last line of a process's log, for an error.
fn last_line(log: &Path) -> String {
    use std::io::{Read as _, Seek as _, SeekFrom};
    const MOST: i64 = 4096;
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = i64::try_from(file.metadata()?.len()).unwrap_or(i64::MAX);
        file.seek(SeekFrom::End(-length.min(MOST)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let mut lines = bytes.rsplit(|byte| *byte == b'\n');
    let line = lines.find(|line| !line.trim_ascii().is_empty());
    weir_auth::peer_text(line.unwrap_or(b"nothing"))
}
