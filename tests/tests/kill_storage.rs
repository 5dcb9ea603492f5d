//! `kill -9` of storages while they receive and send: nothing partial is ever visible, leftovers go, transfers arrive.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use weir_tests::{Draw, Services, StorageSettings, adler32, drafts, visible_files, wait_for};
use weir_units::Timestamp;

const LIMIT: Duration = Duration::from_secs(180);
/// How much later than its time an alarm of the transfer service may be served on a busy machine.
const ALARM_LATE: Duration = Duration::from_secs(5);
const COPIES: usize = 8;
const LARGE: usize = 64_000_000;
const TRANSFER: &str = "[retry]\nretries = 8\ndelay = \"1s\"\ndelay_max = \"4s\"\n[copy]\nstall_timeout = \"20s\"\n";

/// Bytes in drafts of a storage.
fn drafted(root: &Path) -> u64 {
    drafts(root).iter().map(|(_, size)| size).sum()
}

/// Every visible file below `folder` is whole; gives their number.
fn all_whole(root: &Path, folder: &str, content: &[u8]) -> usize {
    let files = visible_files(&root.join(folder));
    for file in &files {
        assert!(
            fs::read(file).unwrap() == content,
            "{} is visible in part",
            file.display()
        );
    }
    files.len()
}

fn job(services: &Services, content: &[u8]) -> Value {
    let files: Vec<Value> = (0..COPIES)
        .map(|number| {
            json!({
                "sources": [format!("{}/large", services.storage("ALPHA").url)],
                "destinations": [format!("{}/pulled/{number}", services.storage("BETA").url)],
                "checksum": adler32(content),
                "filesize": content.len(),
            })
        })
        .collect();
    json!({ "files": files, "params": { "verify_checksum": "both" } })
}

fn assert_all_finished(services: &Services, files: &[Value], content: &[u8]) {
    for file in files {
        assert_eq!(
            file["file_state"],
            "FINISHED",
            "{file:#}\n{}",
            services.transfer.said_last()
        );
    }
    let root = services.root("BETA");
    assert_eq!(all_whole(&root, "pulled", content), COPIES);
    assert!(drafts(&root).is_empty(), "{:?}", drafts(&root));
}

/// Two storages and a transfer service, which copies a file of ALPHA many times to BETA: the services, BETA's root, the job.
fn copying(content: &[u8]) -> (Services, PathBuf, String) {
    let storages = ["ALPHA", "BETA"].map(StorageSettings::new);
    let services = Services::start(&storages, TRANSFER).unwrap();
    let root = services.root("BETA");
    services
        .put(content, &format!("{}/large", services.storage("ALPHA").url))
        .unwrap();
    let id = services.submit("large", &job(&services, content)).unwrap();
    (services, root, id)
}

#[test]
fn a_killed_destination_shows_nothing_partial_and_the_transfers_arrive() {
    // A crash of a storage would leave files that look whole and are not, or fill its disk, or lose transfers.
    let content = Draw::new(64).bytes(LARGE);
    let (mut services, root, id) = copying(&content);

    let mut draw = Draw::new(65);
    for _ in 0..2 {
        let enough = draw.between(1_000_000, (COPIES * LARGE / 4) as u64);
        wait_for(LIMIT, || Ok((drafted(&root) >= enough).then_some(()))).unwrap();
        services.storage_mut("BETA").kill().unwrap();
        assert!(!drafts(&root).is_empty(), "it was killed between two copies");
        all_whole(&root, "pulled", &content);
        services.storage_mut("BETA").start().unwrap();
        let said = services.storage("BETA").said();
        assert!(said.contains("an earlier life left something behind"), "{said}");
        all_whole(&root, "pulled", &content);
    }
    let files = services.settled(&id, LIMIT).unwrap();
    assert_all_finished(&services, &files, &content);
}

#[test]
fn a_killed_source_fails_no_transfer() {
    // A storage that restarts while it is read from would cost the users their transfers.
    let content = Draw::new(66).bytes(LARGE);
    let (mut services, root, id) = copying(&content);
    wait_for(LIMIT, || Ok((drafted(&root) > LARGE as u64 / 4).then_some(()))).unwrap();
    services.storage_mut("ALPHA").kill().unwrap();
    all_whole(&root, "pulled", &content);
    // Broken pulls take their drafts away without a restart.
    wait_for(LIMIT, || Ok(drafts(&root).is_empty().then_some(()))).unwrap();
    services.storage_mut("ALPHA").start().unwrap();
    let files = services.settled(&id, LIMIT).unwrap();
    assert_all_finished(&services, &files, &content);
}

/// The reasons that hold the link from ALPHA to BETA back, in words, and the time of the question.
fn why_link(services: &Services) -> (String, Timestamp) {
    let [source, destination] = ["ALPHA", "BETA"].map(|name| services.storage(name).url.clone());
    let url = format!(
        "{}/why/link?source_se={source}&dest_se={destination}",
        services.transfer.url
    );
    let asked = Timestamp(std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    let answer = services.ask(&[&url]).unwrap().json().unwrap();
    let texts = answer["reasons"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    let texts = texts.iter().map(|reason| reason["text"].as_str().unwrap());
    (texts.collect::<Vec<_>>().join("; "), asked)
}

#[test]
fn a_storage_that_was_away_is_used_again_after_the_pause() {
    // Ten failures open the breaker of the link while all ten files wait for their retries: no alarm was set for the end of
    // the pause, and the link stayed paused until the service was restarted.
    let content = Draw::new(69).bytes(10_000);
    let (mut services, root, _) = copying(&content);
    services.storage_mut("BETA").kill().unwrap();
    let files: Vec<Value> = (0..10)
        .map(|number| {
            let [source, destination] = ["ALPHA", "BETA"].map(|name| &services.storage(name).url);
            json!({ "sources": [format!("{source}/large")], "destinations": [format!("{destination}/late/{number}")] })
        })
        .collect();
    let job = json!({ "files": files, "params": { "retry": 5, "retry_delay": 8 } });
    let id = services.submit("late", &job).unwrap();
    let paused = || Ok(why_link(&services).0.contains(" paused by ").then_some(()));
    wait_for(LIMIT, paused).unwrap_or_else(|error| panic!("{error:#}\n{}", services.transfer.said_last()));
    services.storage_mut("BETA").start().unwrap();
    let arrived = || {
        let (why, asked) = why_link(&services);
        if let Some((_, until)) = why.split_once(" until ") {
            let until = until.split([' ', ';']).next().unwrap();
            // The service may serve the alarm that ends the pause a little late.
            let at_least = Timestamp(asked.0 - ALARM_LATE.as_nanos() as u64).rfc3339();
            assert!(until >= at_least.as_str(), "at {} told: {why}", asked.rfc3339());
        }
        Ok(services.files(&id)?.iter().all(weir_tests::has_ended).then_some(()))
    };
    wait_for(LIMIT, arrived).unwrap_or_else(|error| panic!("{error:#}\n{}", services.transfer.said_last()));
    for file in services.files(&id).unwrap() {
        assert_eq!(
            file["file_state"],
            "FINISHED",
            "{file:#}\n{}",
            services.transfer.said_last()
        );
    }
    assert_eq!(all_whole(&root, "late", &content), 10);
}

#[test]
fn a_storage_that_was_away_for_a_moment_is_pulled_to_afterwards() {
    // A restart beside a storage that was away would have every later copy of the link pushed, or pass through the service.
    let content = Draw::new(70).bytes(10_000);
    let (mut services, _, first) = copying(&content);
    services.settled(&first, LIMIT).unwrap();
    services.transfer.kill().unwrap();
    services.storage_mut("BETA").kill().unwrap();
    services.transfer.start().unwrap();
    let job = |name: &str| {
        let [source, destination] = ["ALPHA", "BETA"].map(|name| &services.storage(name).url);
        let file = |number: usize| json!({ "sources": [format!("{source}/large")], "destinations": [format!("{destination}/{name}/{number}")] });
        json!({ "files": (0..3).map(file).collect::<Vec<_>>(), "params": { "retry": 10, "retry_delay": 1 } })
    };
    let (away, after) = (job("away"), job("after"));
    let id = services.submit("away", &away).unwrap();
    let failed_once = || {
        let files = services.files(&id)?;
        Ok(files
            .iter()
            .any(|file| file["weir"]["attempts"].as_u64() > Some(0))
            .then_some(()))
    };
    wait_for(LIMIT, failed_once).unwrap();
    services.storage_mut("BETA").start().unwrap();
    services.settled(&id, LIMIT).unwrap();
    let after = services.submit("after", &after).unwrap();
    services.settled(&after, LIMIT).unwrap();
    for job in [&id, &after] {
        for file in services.files(job).unwrap() {
            let told = (&file["file_state"], &file["weir"]["mode"]);
            assert_eq!(told, (&json!("FINISHED"), &json!("pull")), "{file:#}");
        }
    }
}

/// An upload that would take some ten seconds.
fn slow_put(services: &Services, number: usize) -> Child {
    let mut curl: Command = services.curl();
    let url = format!("{}/put/{number}", services.storage("BETA").url);
    curl.args(["--limit-rate", "1M", "-T", "content", &url]);
    curl.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_storage_forgets_uploads_that_did_not_end() {
    // An upload that was cut short would be found under its name.
    let content = Draw::new(67).bytes(10_000_000);
    let old = Draw::new(68).bytes(1_000);
    let mut services = Services::start(&[StorageSettings::new("BETA")], "").unwrap();
    let root = services.root("BETA");
    fs::write(services.file("content"), &content).unwrap();
    // The first upload would replace a file: that stays as it is until the new one is whole.
    let replaced = format!("{}/put/0", services.storage("BETA").url);
    services.put(&old, &replaced).unwrap();
    let mut uploads: Vec<Child> = (0..4).map(|number| slow_put(&services, number)).collect();
    let begun = || Ok((drafts(&root).iter().filter(|(_, size)| *size > 0).count() == 4).then_some(()));
    wait_for(LIMIT, begun).unwrap();
    services.storage_mut("BETA").kill().unwrap();
    for upload in &mut uploads {
        assert!(!upload.wait().unwrap().success(), "an upload ended before the kill");
    }
    assert_eq!(all_whole(&root, "put", &old), 1);
    assert_eq!(drafts(&root).len(), 4);

    services.storage_mut("BETA").start().unwrap();
    wait_for(LIMIT, || Ok(drafts(&root).is_empty().then_some(()))).unwrap();
    assert_eq!(services.ask(&[&replaced]).unwrap().status, 200);
    for number in 1..4 {
        let url = format!("{}/put/{number}", services.storage("BETA").url);
        assert_eq!(services.ask(&["-I", &url]).unwrap().status, 404);
        services.put(&content, &url).unwrap();
        assert!(fs::read(root.join(format!("put/{number}"))).unwrap() == content);
    }
    // Files that the sweep removed are not counted as used either.
    let metrics = format!("{}/.well-known/weir/metrics", services.storage("BETA").url);
    let page = services.ask(&[&metrics]).unwrap().body;
    let used = format!(
        "weir_storage_space_bytes{{area=\"BETA\",state=\"used\"}} {}",
        3 * content.len() + old.len()
    );
    assert!(page.contains(&used), "no {used} in {page}");
}
