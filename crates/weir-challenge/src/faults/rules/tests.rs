#![allow(clippy::unwrap_used, reason = "tests")]

use weir_plan::{Challenge, Overrides, Plan};
use weir_units::BitRate;

use super::super::ground::{DiskRates, NetworkGround, SharedPath};
use super::*;

fn plan(fault: &str) -> Plan {
    let text = format!(
        "name = \"c\"\n[grid]\nname = \"g\"\n[[grid.rse]]\nname = \"A\"\n[[grid.rse]]\nname = \"B\"\n[[grid.rse]]\nname = \"C\"\n\
         [[workload]]\nkind = \"rates\"\nrates = [{{ source = \"A\", destination = \"B\", rate = \"1 Gb/s\" }}]\n{fault}"
    );
    Challenge::parse(&text, "c.toml".as_ref())
        .unwrap_or_else(|problems| panic!("{problems:?}"))
        .resolve(&Overrides::default())
        .unwrap()
}

fn ground() -> Ground {
    let end = |name: &str, last: u8| End {
        name: name.parse().unwrap(),
        site: name.to_owned(),
        door: SocketAddr::new([127, 0, 1, last].into(), 4_000),
        is_foreign: false,
    };
    Ground {
        ends: vec![end("A", 1), end("B", 2), end("C", 3)],
        network: NetworkGround::default(),
        has_packets: false,
        file_sizes: [100_000, 1_000_000].map(|size| ("A->B".parse().unwrap(), size)).into(),
    }
}

fn ip(last: u8) -> IpAddr {
    [127, 0, 1, last].into()
}

/// Rules of the only fault of a plan, at a level.
fn of(fault: &str, ground: &Ground, level: Level) -> RulesByDoor {
    let plan = plan(&format!("[[fault]]\n{fault}"));
    let on: Vec<_> = plan.faults.iter().map(|fault| (fault, level)).collect();
    rules(ground, &on, &mut Buckets::default())
}

/// A fault of one link would slow others, or the other direction.
#[test]
fn a_link_is_limited_at_both_of_its_ends() {
    let rules = of(
        "kind = \"capacity\"\nlink = \"A->B\"\nrate = \"80 Mb/s\"",
        &ground(),
        1.0,
    );
    assert_eq!(rules.keys().map(String::as_str).collect::<Vec<_>>(), ["A", "B"]);
    let (pull, push) = (&rules["A"][0], &rules["B"][0]);
    assert_eq!(
        (pull.peers.as_deref(), pull.direction),
        (Some([ip(2)].as_slice()), Some(Direction::Down))
    );
    assert_eq!(
        (push.peers.as_deref(), push.direction),
        (Some([ip(1)].as_slice()), Some(Direction::Up))
    );
    // One rate for both ways of copying.
    assert!(Arc::ptr_eq(
        pull.shared.as_ref().unwrap(),
        push.shared.as_ref().unwrap()
    ));
}

/// A machine without limits would stand in for disks that have some.
#[test]
fn disks_of_the_ground_are_always_slow() {
    let rates = DiskRates {
        read: Some(BitRate(8_000_000)),
        both: Some(BitRate(16_000_000)),
        ..DiskRates::default()
    };
    let mut ground = ground();
    ground.network.disks.push(("B".parse().unwrap(), rates));
    let disks = disks(&ground, &[], &mut Buckets::default());
    assert_eq!(
        (disks["B"].reads.len(), disks["B"].writes.len(), disks.len()),
        (2, 1, 1)
    );
}

/// A storage would be slow to read that is slow to write, or another one.
#[test]
fn reads_and_writes_are_apart() {
    let plan = plan(
        "[[fault]]\nkind = \"slow-read\"\nrse = \"A\"\nrate = \"8 Mb/s\"\n[[fault]]\nkind = \"slow-disk\"\nrse = \"B\"\nrate = \"8 Mb/s\"\n\
         [[fault]]\nkind = \"slow-close\"\nrse = \"*\"\ndelay = \"2 s\"\n\
         [[fault]]\nkind = \"slow-stream\"\nrse = \"A\"\nway = \"in\"\nrate = \"8 Mb/s\"",
    );
    let on: Vec<_> = plan.faults.iter().map(|fault| (fault, 0.5)).collect();
    let disks = disks(&ground(), &on, &mut Buckets::default());
    assert_eq!((disks["A"].reads.len(), disks["A"].writes.len()), (1, 0));
    assert!(Arc::ptr_eq(&disks["B"].reads[0], &disks["B"].writes[0]));
    assert!(disks.values().all(|disk| disk.close == Duration::from_secs(1)));
    assert!(disks["C"].reads.is_empty());
    // At half of its level it is half as hard.
    assert_eq!(
        (disks["A"].streams, disks["B"].streams),
        ([None, Some(2_000_000)], [None; 2])
    );
    assert!(
        rules(&ground(), &on, &mut Buckets::default()).is_empty(),
        "no relay has to do with it"
    );
}

#[test]
fn an_outage_cuts_the_door_and_what_goes_out_from_it() {
    let rules = of("kind = \"outage\"\nrse = \"A\"", &ground(), 1.0);
    assert!(rules["A"].iter().any(|rule| rule.is_cut && rule.peers.is_none()));
    for other in ["B", "C"] {
        let rule = &rules[other][0];
        assert!(
            rule.is_cut && rule.peers.as_deref() == Some([ip(1), ip(1)].as_slice())
                || rule.peers.as_deref() == Some([ip(1)].as_slice())
        );
    }
    for service in ["issuer", "transfer", "catalog"] {
        let cut = of(&format!("kind = \"outage\"\nservice = \"{service}\""), &ground(), 1.0);
        assert!(cut[&format!("service:{service}")][0].is_cut && cut.len() == 1);
    }
}

/// A storage of another program would be out of reach, or the grid's services be cut off, which share its address.
#[test]
fn another_programs_storage_may_connect_from_any_address() {
    let mut ground = ground();
    ground.ends[2].is_foreign = true;
    let slow = of("kind = \"capacity\"\nlink = \"A->C\"\nrate = \"8 Mb/s\"", &ground, 1.0);
    let peers = |rule: &Rule| rule.peers.as_ref().unwrap().to_vec();
    assert_eq!(
        peers(&slow["A"][0]),
        [IpAddr::from([127, 0, 1, 3]), IpAddr::from([127, 0, 0, 1])]
    );
    assert_eq!(peers(&slow["C"][0]), [IpAddr::from([127, 0, 1, 1])]);
    let cut = of("kind = \"outage\"\nrse = \"C\"", &ground, 1.0);
    assert!(cut["C"].iter().any(|rule| rule.peers.is_none() && rule.is_cut));
    assert!(!cut.contains_key("A"), "{cut:?}");
}

/// Half a fault would be as hard as a whole one.
#[test]
fn levels_soften() {
    let delay = |level| {
        of(
            "kind = \"round-trip\"\nlink = \"A->B\"\ndelay = \"100 ms\"",
            &ground(),
            level,
        )["A"][0]
            .delay
    };
    assert_eq!(
        (delay(1.0), delay(0.1)),
        (Duration::from_millis(50), Duration::from_millis(5))
    );
    let hazard = |share: f64| {
        of(
            &format!("kind = \"failures\"\nlink = \"A->B\"\nerror = \"network\"\nshare = {share}\nabove = \"100 kB\""),
            &ground(),
            1.0,
        )["A"][0]
            .damage
            .unwrap()
            .per_byte
    };
    assert!((1.0 - (-hazard(0.75) * 9e5).exp() - 0.75).abs() < 1e-9);
    assert!(hazard(1.0).is_finite());
}

/// Pulled files would fail where only pushed ones do, or small ones with the large ones.
#[test]
fn failures_of_one_mode_are_at_one_end() {
    let text = |mode: &str| {
        format!(
            "kind = \"failures\"\nlink = \"A->B\"\nerror = \"tls\"\nshare = 0.5\nmode = \"{mode}\"\nabove = \"500 kB\""
        )
    };
    let pushed = of(&text("push"), &ground(), 1.0);
    let rule = &pushed["B"][0];
    assert!(pushed.len() == 1 && rule.direction == Some(Direction::Up));
    let damage = rule.damage.unwrap();
    assert_eq!((damage.kind, damage.above), (DamageKind::Change, 500_000));
    assert!((1.0 - (-damage.per_byte * 5e5).exp() - 0.5).abs() < 1e-9);
    let pulled = of(&text("pull"), &ground(), 1.0);
    assert_eq!(pulled.keys().map(String::as_str).collect::<Vec<_>>(), ["A"]);
}

#[test]
fn a_window_bounds_a_stream_over_its_round_trip() {
    let text = "kind = \"window\"\nlink = \"A->B\"\nsize = \"1 MB\"\n[[fault]]\nkind = \"round-trip\"\nlink = \"A->B\"\ndelay = \"100 ms\"";
    let rules = of(text, &ground(), 1.0);
    assert!(rules["A"].iter().any(|rule| rule.each == Some(10_000_000)), "{rules:?}");
}

/// Traffic on a detour would take its own path, too, or leave the wire of its site.
#[test]
fn a_detour_moves_one_link_from_segment_to_segment() {
    let mut ground = ground();
    let mut path = |name: &str, links: &[&str], has_detours| {
        ground.network.shared.push(SharedPath {
            name: name.to_owned(),
            links: links.iter().map(|link| link.parse().unwrap()).collect(),
            capacity: BitRate(8_000),
            has_detours,
        });
    };
    path("own", &["A->B", "C->B"], true);
    path("other", &["A->C"], true);
    path("site B in", &["A->B", "C->B"], false);
    let mut buckets = Buckets::default();
    let n_shared = |rules: &RulesByDoor, peer: u8| {
        let meant = |rule: &&Rule| rule.peers.as_deref().is_some_and(|peers| peers.contains(&ip(peer)));
        let of = rules["A"].iter().filter(meant).filter_map(|rule| rule.shared.clone());
        of.collect::<Vec<_>>()
    };
    let before = rules(&ground, &[], &mut buckets);
    assert_eq!((n_shared(&before, 2).len(), n_shared(&before, 3).len()), (2, 1));
    let plan = plan("[[fault]]\nkind = \"reroute\"\nlink = \"A->B\"\nto = \"other\"");
    let moved = rules(&ground, &[(&plan.faults[0], 1.0)], &mut buckets);
    // The capacity of the detour is one for both links.
    let (detoured, other) = (n_shared(&moved, 2), n_shared(&moved, 3));
    assert_eq!((detoured.len(), other.len()), (2, 1));
    assert!(detoured.iter().any(|bucket| Arc::ptr_eq(bucket, &other[0])));
}

/// Traffic of others would take nothing, or more than there is.
#[test]
fn others_take_a_part_of_a_shared_path() {
    let mut ground = ground();
    ground.network.shared.push(SharedPath {
        name: "sea".to_owned(),
        links: vec!["A->B".parse().unwrap(), "C->B".parse().unwrap()],
        capacity: BitRate(80_000_000),
        has_detours: true,
    });
    let plan = plan("[[fault]]\nkind = \"foreign-load\"\nsegment = \"sea\"\nrate = \"60 Mb/s\"");
    let mut buckets = Buckets::default();
    let free = rules(&ground, &[], &mut buckets);
    assert!(free["A"][0].shared.is_some() && free["C"][0].shared.is_some());
    let taken = rules(&ground, &[(&plan.faults[0], 1.0)], &mut buckets);
    // The same bucket, so that open connections feel it.
    assert!(Arc::ptr_eq(
        free["A"][0].shared.as_ref().unwrap(),
        taken["C"][0].shared.as_ref().unwrap()
    ));
    assert!(
        format!("{:?}", taken["A"][0].shared).contains("2500000"),
        "{:?}",
        taken["A"][0].shared
    );
}
