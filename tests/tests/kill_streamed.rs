//! `kill -9` of the transfer service and of storages during copies that pass through the service: no file fails for it, and every
//! file that arrives is whole.
//!
//! Five seeded rounds; a hundred with `WEIR_SOAK` set; one with `WEIR_SEED=n`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeMap, fs, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};
use weir_tests::{Draw, Services, StorageSettings, adler32, drafts, seeds, visible_files, wait_for};

const LIMIT: Duration = Duration::from_secs(120);
const FILES: usize = 30;
const KILLS: usize = 3;
const TRANSFER: &str = "[limits]\nlink = 8\n[retry]\nretries = 8\ndelay = \"1s\"\ndelay_max = \"2s\"\n";

/// The two ends of a streamed copy are the service and a storage. The service is killed at each kill; with it, at some, a storage.
/// The gap between the two deaths is short, and the service is dead first in half of the cases: a storage that outlives the service
/// completes what it has received.
#[derive(Debug, Clone, Copy)]
struct Kill {
    /// Bytes of the round that have arrived, in drafts or files.
    arrived: u64,
    storage: Option<&'static str>,
    /// The destination stands still while the service dies, with what it was sent still in its sockets.
    stalls: bool,
    service_first: bool,
    gap: Duration,
    away: Duration,
}

fn kills(draw: &mut Draw, total: u64) -> Vec<Kill> {
    let storages = [None, None, Some("BETA"), Some("BETA"), Some("ALPHA")];
    let mut kill = |number: u64| Kill {
        arrived: draw.between(number * total / 4, (number + 1) * total / 4),
        storage: storages[draw.below(5) as usize],
        stalls: draw.below(2) == 0,
        service_first: draw.below(2) == 0,
        gap: Duration::from_micros(draw.below(20_000)),
        away: Duration::from_millis(draw.below(300)),
    };
    (0..KILLS as u64).map(&mut kill).collect()
}

/// Bytes that BETA has received for the round.
fn received(services: &Services, round: &str) -> u64 {
    let root = services.root("BETA");
    let drafted: u64 = drafts(&root).iter().map(|(_, size)| size).sum();
    let visible = visible_files(&root.join(round));
    drafted
        + visible
            .iter()
            .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
            .sum::<u64>()
}

fn kill(services: &mut Services, kill: Kill) {
    let storage = kill.storage;
    if storage.is_none() && kill.stalls {
        return kill_beside_a_stalled_storage(services, kill);
    }
    let mut dying = vec!["transfer"];
    dying.extend(storage);
    if !kill.service_first {
        dying.reverse();
    }
    for (place, name) in dying.iter().enumerate() {
        if place > 0 {
            std::thread::sleep(kill.gap);
        }
        services.service_mut(name).kill().unwrap();
    }
    // In half of the cases the service finds the storage away at first.
    if kill.service_first {
        services.transfer.start().unwrap();
        std::thread::sleep(kill.away);
    }
    if let Some(name) = storage {
        services.storage_mut(name).start().unwrap();
    }
    if !kill.service_first {
        services.transfer.start().unwrap();
    }
}

fn kill_beside_a_stalled_storage(services: &mut Services, kill: Kill) {
    services.storage("BETA").signal(Signal::STOP).unwrap();
    std::thread::sleep(kill.away);
    services.transfer.kill().unwrap();
    services.transfer.start().unwrap();
    std::thread::sleep(kill.gap);
    services.storage("BETA").signal(Signal::CONT).unwrap();
}

/// A few contents of many sizes, at ALPHA.
fn contents(services: &Services) -> BTreeMap<String, Vec<u8>> {
    let mut draw = Draw::new(71);
    let sizes = [3_000_usize, 200_000, 1_500_000, 6_000_000, 12_000_000];
    let content = |size: usize| (size.to_string(), draw.bytes(size));
    let contents: BTreeMap<_, _> = sizes.into_iter().map(content).collect();
    for (name, content) in &contents {
        let url = format!("{}/{name}", services.storage("ALPHA").url);
        services.put(content, &url).unwrap();
    }
    contents
}

fn run_round(services: &mut Services, seed: u64, contents: &BTreeMap<String, Vec<u8>>) {
    let mut draw = Draw::new(seed);
    let round = format!("round-{seed}");
    let names: Vec<&String> = contents.keys().collect();
    let chosen: Vec<&str> = (0..FILES)
        .map(|_| names[draw.below(names.len() as u64) as usize].as_str())
        .collect();
    let total = chosen.iter().map(|name| contents[*name].len() as u64).sum();
    let [source, destination] = ["ALPHA", "BETA"].map(|name| &services.storage(name).url);
    let file = |(number, name): (usize, &&str)| {
        json!({
            "sources": [format!("{source}/{name}")],
            "destinations": [format!("{destination}/{round}/{number}")],
            "checksum": adler32(&contents[*name]),
        })
    };
    let files: Vec<Value> = chosen.iter().enumerate().map(file).collect();
    // An overwrite would hide a copy that was not recognised.
    let job = json!({ "files": files, "params": { "copy_mode": "streamed", "verify_checksum": "both" } });
    let id = services.submit(&round, &job).unwrap();
    for kill in kills(&mut draw, total) {
        let due = || Ok((received(services, &round) >= kill.arrived).then_some(()));
        let scene = format!("seed {seed}, before {kill:?}");
        wait_for(LIMIT, due).unwrap_or_else(|error| panic!("{scene}: {error:#}\n{}", services.transfer.said_last()));
        self::kill(services, kill);
    }
    let settled = services.settled(&id, LIMIT).unwrap();
    for file in &settled {
        let state = &file["file_state"];
        assert_eq!(
            state,
            "FINISHED",
            "seed {seed}: {file:#}\n{}",
            services.transfer.said_last()
        );
    }
    let root = services.root("BETA");
    for (number, name) in chosen.iter().enumerate() {
        let arrived = fs::read(root.join(&round).join(number.to_string())).unwrap();
        assert!(
            arrived == contents[*name],
            "seed {seed}: file {number} differs from {name}"
        );
    }
    assert_eq!(visible_files(&root.join(&round)).len(), FILES, "seed {seed}");
    wait_for(LIMIT, || Ok(drafts(&root).is_empty().then_some(()))).unwrap();
    fs::remove_dir_all(root.join(&round)).unwrap();
}

#[test]
fn a_streamed_copy_whose_ends_are_killed_arrives() {
    // A storage completes an upload whose sender died. The service would find its own file at the destination and fail the transfer.
    let storages = ["ALPHA", "BETA"].map(StorageSettings::new);
    let mut services = Services::start(&storages, TRANSFER).unwrap();
    let contents = contents(&services);
    for seed in seeds(5) {
        run_round(&mut services, seed, &contents);
    }
}
