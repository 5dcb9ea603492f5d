//! The wall clock of a storage steps by hours and days while it works: transfers under way go on, stalls are still noticed, and
//! tokens are judged by the clock as it is.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use weir_tests::{Answer, Draw, Path, Relay, Services, SteppingClock, StorageSettings, drafts, peers, run, wait_for};

const LIMIT: Duration = Duration::from_secs(60);
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const STEPS: [i64; 5] = [HOUR, -HOUR, DAY, -DAY, 0];

/// Takes some four seconds at the rates below.
const SIZE: usize = 8_000_000;
const RATE: u64 = 2_000_000;

/// More than what lies between two programs when one of them stops.
const LONG: usize = 48_000_000;

/// Less than a step by far, more than any pause of the disk.
const TPC: &str = "stall_timeout = \"5s\"\nmarker_interval = \"1s\"\n";

struct Scene {
    services: Services,
    clock: SteppingClock,
    /// ALPHA's files by a narrow way, up to their names.
    source: String,
}

impl Scene {
    fn new() -> Self {
        let beta = StorageSettings::durable("BETA").tpc(TPC);
        let mut services = Services::start(&[StorageSettings::new("ALPHA"), beta], "").unwrap();
        let clock = SteppingClock::new().unwrap();
        let storage = services.storage_mut("BETA");
        storage.stop(LIMIT).unwrap();
        storage.environment = clock.environment();
        storage.start().unwrap();
        let content = Draw::new(7).bytes(SIZE);
        let alpha = services.storage("ALPHA").url.clone();
        services.put(&content, &format!("{alpha}/f")).unwrap();
        services
            .put(&Draw::new(8).bytes(LONG), &format!("{alpha}/long"))
            .unwrap();
        fs::write(services.file("content"), &content).unwrap();
        let behind: SocketAddr = alpha.trim_start_matches("https://").parse().unwrap();
        let path = Path {
            rate: Some(RATE),
            ..Path::new(Duration::from_millis(2), 1 << 20)
        };
        let relay = Relay::start(behind.ip(), behind, path).unwrap();
        let header = fs::read_to_string(services.file("header")).unwrap();
        fs::write(services.file("forwarded"), format!("TransferHeader{header}")).unwrap();
        Self {
            source: format!("Source: https://{}", relay.address()),
            services,
            clock,
        }
    }

    fn url(&self, name: &str) -> String {
        format!("{}/{name}", self.services.storage("BETA").url)
    }

    /// Begins what takes a while.
    fn begin(&self, words: &[&str], log: &str) -> Child {
        let mut curl: Command = self.services.curl();
        let log = fs::File::create(self.services.file(log)).unwrap();
        curl.args(words).stdin(Stdio::null()).stdout(log).stderr(Stdio::null());
        curl.spawn().unwrap()
    }

    /// Steps the clock, and waits until the storage has seen it.
    fn step(&self, seconds: i64) {
        self.clock.step(seconds).unwrap();
        // The space report says when it was made; with or without a token.
        let url = self.url(".well-known/weir/srr");
        let followed = || {
            let report = Answer::of(&run(self.services.bare_curl().arg(&url))?).json()?;
            let seen = report["storageservice"]["latestupdate"].as_i64().context("no time")?;
            let now = i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs())?;
            Ok(((seen - now - seconds).abs() < 60).then_some(()))
        };
        wait_for(Duration::from_secs(20), followed).expect("the storage sees the step");
    }
}

#[test]
fn steps_of_the_wall_clock_neither_cut_nor_hang_what_is_under_way() {
    // Transfers would be given up as stalled, or wait for the time that the clock was set back by.
    if !peers() {
        return;
    }
    let mut scene = Scene::new();
    let root = scene.services.root("BETA");
    let content = fs::read(scene.services.file("content")).unwrap();
    for (number, seconds) in STEPS.into_iter().enumerate() {
        // Begun by the true clock, by which the token is good.
        scene.step(0);
        let (put, pulled) = (format!("put{number}"), format!("pulled{number}"));
        let rate = RATE.to_string();
        let mut upload = scene.begin(&["--limit-rate", &rate, "-T", "content", &scene.url(&put)], "upload");
        let copy = [
            "-X",
            "COPY",
            "-H",
            "@forwarded",
            "-H",
            &format!("{}/f", scene.source),
            &scene.url(&pulled),
        ];
        let mut copy = scene.begin(&copy, "copy");
        wait_for(LIMIT, || Ok((drafts(&root).len() == 2).then_some(()))).unwrap();
        scene.step(seconds);
        assert!(upload.wait().unwrap().success() && copy.wait().unwrap().success());
        let said = |log: &str| fs::read_to_string(scene.services.file(log)).unwrap();
        assert!(said("upload").trim().ends_with("201"), "{seconds}: {}", said("upload"));
        assert!(said("copy").contains("\nsuccess: "), "{seconds}: {}", said("copy"));
        for name in [put, pulled] {
            assert!(fs::read(root.join(&name)).unwrap() == content, "{name}");
        }
        // A token that is over, or has not begun, is none; and is one again when the clock is.
        let ask = || scene.services.ask(&["-I", &scene.url("put0")]).unwrap().status;
        assert_eq!(ask(), if seconds == 0 { 200 } else { 401 }, "{seconds}");
        scene.step(0);
        assert_eq!(ask(), 200, "after {seconds}");
    }
    // A source that falls silent is noticed in its time, however the clock steps meanwhile.
    for seconds in [DAY, -DAY] {
        scene.step(0);
        let copy = [
            "-X",
            "COPY",
            "-H",
            "@forwarded",
            "-H",
            &format!("{}/long", scene.source),
            &scene.url("stalled"),
        ];
        let mut copy = scene.begin(&copy, "copy");
        wait_for(LIMIT, || Ok((!drafts(&root).is_empty()).then_some(()))).unwrap();
        scene
            .services
            .storage("ALPHA")
            .signal(rustix::process::Signal::STOP)
            .unwrap();
        scene.clock.step(seconds).unwrap();
        let ended = wait_for(LIMIT, || Ok(copy.try_wait()?));
        scene
            .services
            .storage("ALPHA")
            .signal(rustix::process::Signal::CONT)
            .unwrap();
        let _gone = (copy.kill(), copy.wait());
        ended.expect("it is not waited for for ever");
        let said = fs::read_to_string(scene.services.file("copy")).unwrap();
        assert!(
            said.contains("\nfailure: ") && said.contains("stall"),
            "{seconds}: {said}"
        );
        wait_for(LIMIT, || Ok(drafts(&root).is_empty().then_some(()))).unwrap();
    }
    scene.services.storage_mut("BETA").stop(LIMIT).unwrap();
}
