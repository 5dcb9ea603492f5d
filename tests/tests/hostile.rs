//! Clients that would keep others out: while each of them does what it does, another client is served.
//!
//! At a small size; with `WEIR_SOAK` set at the size at which the attacks were first made.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, net::Ipv4Addr, time::Duration};

use serde_json::json;
use weir_tests::{Answer, Crowd, Habit, Services, StorageSettings, run, silent, waiting_job};

/// Where the attacks come from; the other client comes from 127.0.0.1.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 9, 66);
/// More often than the longest silence that any door bears.
const TRICKLE: Duration = Duration::from_millis(2500);
/// How long an attack lasts: longer than a body may take, so that the crowd comes again at least once.
const LASTS: Duration = Duration::from_secs(18);

/// The places of a door, and as many attackers.
fn places() -> usize {
    if std::env::var_os("WEIR_SOAK").is_some() {
        4096
    } else {
        48
    }
}

fn limits() -> String {
    format!("[limits]\nconnections = {}\n", places())
}

/// Asks again and again while a crowd is there; each question is answered as it should be.
fn is_served(crowd: &Crowd, what: &str, ask: impl Fn() -> Answer, due: u16) {
    let begun = std::time::Instant::now();
    let mut answers = 0;
    while begun.elapsed() < LASTS || answers < 5 {
        let answer = ask();
        assert_eq!(
            answer.status,
            due,
            "{what}, question {answers} beside {} others: {answer:?}",
            crowd.open()
        );
        answers += 1;
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
fn requests_that_never_end_keep_nobody_from_the_issuer() {
    // No client would get a token, and with it every transfer of the grid stops. It takes no credential.
    let mut services = Services::start(&[], "").unwrap();
    services.reconfigure_issuer(&limits()).unwrap();
    let head = "POST /token HTTP/1.1\r\nHost: issuer\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 20000\r\n\r\n";
    let authority = services.file("authority/ca.pem");
    let habit = Habit::Trickles(TRICKLE);
    let crowd = Crowd::gather(
        services.issuer(),
        &authority,
        ATTACKER,
        places(),
        |_| head.to_owned(),
        habit,
    )
    .unwrap();
    let ask = || {
        let url = format!("{}/token", services.issuer());
        let form = format!("@{}", services.token_form("storage.read:/").unwrap().display());
        Answer::of(&run(services.bare_curl().args(["-m", "20", "-d", &form, &url])).unwrap())
    };
    is_served(&crowd, "the issuer", ask, 200);
}

#[test]
fn jobs_that_never_end_keep_nobody_from_the_transfer_service() {
    // One user would hold up everybody's transfers, with bodies too small to need room of their own.
    let services = Services::start(&[StorageSettings::new("ALPHA")], &limits()).unwrap();
    let header = fs::read_to_string(services.file("header")).unwrap();
    let head = format!(
        "POST /jobs HTTP/1.1\r\nHost: fts\r\n{}\r\nContent-Type: application/json\r\nContent-Length: 30000\r\n\r\n",
        header.trim_end()
    );
    let authority = services.file("authority/ca.pem");
    let habit = Habit::Trickles(TRICKLE);
    let crowd = Crowd::gather(
        &services.transfer.url,
        &authority,
        ATTACKER,
        places(),
        move |_| head.clone(),
        habit,
    )
    .unwrap();
    let job = waiting_job(&services, silent(), "waiting", 1);
    let ask = || Answer::of(&run(services.submission("waiting", &job).unwrap().args(["-m", "20"])).unwrap());
    is_served(&crowd, "the transfer service", ask, 200);
}

/// A storage with little memory for data in flight, at a small size, and a crowd that asks for all of it.
fn is_served_beside(name: &str, count: usize, begin: impl Fn(&str, usize) -> String + Send + 'static, habit: Habit) {
    let soaks = std::env::var_os("WEIR_SOAK").is_some();
    let limits = if soaks { "" } else { "[limits]\nmemory = \"8 MiB\"\n" };
    let services = Services::start(&[StorageSettings::new("ALPHA").tpc(limits)], "").unwrap();
    let alpha = services.storage("ALPHA").url.clone();
    services.put(&vec![7; 20_000_000], &format!("{alpha}/large")).unwrap();
    let scope = "storage.read:/ storage.modify:/";
    let token = services
        .token_with(&json!({ "sub": "attacker", "scope": scope }))
        .unwrap();
    let authority = services.file("authority/ca.pem");
    let crowd = Crowd::gather(
        &alpha,
        &authority,
        ATTACKER,
        count,
        move |number| begin(&token, number),
        habit,
    )
    .unwrap();
    let content = services.file("content");
    fs::write(&content, [7; 10_000]).unwrap();
    let number = std::cell::Cell::new(0);
    let ask = || {
        number.set(number.get() + 1);
        let read = services
            .ask(&["-m", "20", "-o", "/dev/null", &format!("{alpha}/large")])
            .unwrap();
        assert_eq!(read.status, 200, "{name}: {read:?}");
        let url = format!("{alpha}/other/{}", number.get());
        services
            .ask(&["-m", "20", "-T", content.to_str().unwrap(), &url])
            .unwrap()
    };
    is_served(&crowd, name, ask, 201);
}

#[test]
fn readers_that_do_not_read_leave_memory_for_others() {
    // One client would have all transfers of the storage, at no cost to itself.
    let begin =
        |token: &str, _: usize| format!("GET /large HTTP/1.1\r\nHost: alpha\r\nAuthorization: Bearer {token}\r\n\r\n");
    is_served_beside("readers", 150, begin, Habit::Stalls);
}

#[test]
fn uploads_that_never_end_leave_memory_for_others() {
    // As above.
    let count = if std::env::var_os("WEIR_SOAK").is_some() {
        815
    } else {
        60
    };
    let begin = |token: &str, number: usize| {
        format!(
            "PUT /slow/{number} HTTP/1.1\r\nHost: alpha\r\nAuthorization: Bearer {token}\r\nContent-Length: 10000000\r\n\r\n"
        )
    };
    is_served_beside("uploads", count, begin, Habit::Trickles(TRICKLE));
}

/// The most memory that a process has had, in bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn few_bytes_of_a_job_do_not_become_much_memory() {
    // Gigabytes for requests that are refused in the end, or the end of the process.
    let services = Services::start(&[StorageSettings::new("ALPHA")], "").unwrap();
    let size: usize = if std::env::var_os("WEIR_SOAK").is_some() {
        50_000_000
    } else {
        12_000_000
    };
    let bodies = [("files", r#"{"files": ["#), ("params", r#"{"params": ["#)].map(|(name, begin)| {
        let file = services.file(&format!("{name}.body"));
        let text = format!("{begin}{}0]}}", "0,".repeat(size / 2));
        fs::write(&file, text).unwrap();
        file
    });
    let pid = services.transfer.pid().unwrap();
    let before = peak(pid);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (services, body) = (&services, &bodies[number % 2]);
            scope.spawn(move || {
                let data = format!("@{}", body.display());
                let url = format!("{}/jobs", services.transfer.url);
                let words = [
                    "-m",
                    "60",
                    "-H",
                    "Content-Type: application/json",
                    "--data-binary",
                    &data,
                    &url,
                ];
                let answer = services.ask(&words).unwrap();
                assert_eq!(answer.status, 400, "{answer:?}");
                assert!(answer.body.contains("split the job"), "{answer:?}");
            });
        }
    });
    // Four bodies, and two at a time as values of at most four times their size, in arrays that grow by doubling. Read to their ends they
    // would be 16 times their size.
    let (grown, most) = (peak(pid).saturating_sub(before), 16 * size as u64 + (64 << 20));
    assert!(grown < most, "{grown} bytes of {most}");
}

#[test]
fn a_request_that_could_be_two_is_refused_at_every_door() {
    // A proxy before a door would see one request, and the door another one, in somebody else's name.
    let services = Services::start(&[StorageSettings::new("ALPHA")], "").unwrap();
    let doors = [
        services.issuer(),
        &services.transfer.url,
        &services.storage("ALPHA").url,
    ];
    let gzip = ["-H", "Transfer-Encoding: gzip, chunked", "-X", "POST"];
    for door in doors {
        for (words, due) in [(&["-H", "Host:"][..], 400), (&["-H", "Host: a b"], 400), (&gzip, 501)] {
            let url = format!("{door}/anything");
            let answer = Answer::of(&run(services.bare_curl().args(["-m", "20"]).args(words).arg(&url)).unwrap());
            assert_eq!(answer.status, due, "{words:?} at {door}: {answer:?}");
        }
    }
    // The doors are as they were.
    let job = json!({ "files": [] });
    let answer = Answer::of(&run(&mut services.submission("empty", &job).unwrap()).unwrap());
    assert_eq!(answer.status, 400, "{answer:?}");
}
