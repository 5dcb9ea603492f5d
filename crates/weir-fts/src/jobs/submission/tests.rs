#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use serde_json::json;

use weir_auth::Secret;
use weir_executor::job::{ChecksumMode, Overwrite, TIMEOUT_MAX};

use super::{params::job_id_of, *};

fn user() -> Submitter {
    Submitter {
        user_dn: "alice".into(),
        cred_id: "0123".into(),
        vo: "testvo".into(),
        token: Some(Secret::new("API")),
    }
}

fn read_it(body: &Value) -> Result<Draft, Refusal> {
    read(body, &user(), &SubmissionLimits::default(), 1_000_000)
}

fn one_file(extra: Value) -> Value {
    let mut file = json!({ "sources": ["https://a.ex/f"], "destinations": ["https://b.ex/f"] });
    file.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    file
}

fn with_params(params: Value) -> Value {
    json!({ "params": params, "files": [one_file(json!({}))] })
}

#[test]
fn the_command_line_clients_payload_is_taken() {
    let body = json!({
        "params": {
            "overwrite": false, "overwrite_on_retry": false, "overwrite_when_only_on_disk": false, "overwrite_hop": false,
            "reuse": false, "job_metadata": null, "gridftp": null, "spacetoken": null, "source_spacetoken": null,
            "verify_checksum": "n", "copy_pin_lifetime": -1, "bring_online": -1, "dst_file_report": false,
            "archive_timeout": -1, "timeout": null, "fail_nearline": false, "retry": 0, "priority": null,
            "multihop": false, "credential": null, "nostreams": null, "s3alternate": false, "ipv4": false, "ipv6": false,
            "buffer_size": null, "strict_copy": false, "disable_cleanup": false, "unmanaged_tokens": false
        },
        "files": [one_file(json!({
            "checksum": "ADLER32", "filesize": null, "activity": null, "scitag": null, "metadata": null,
            "staging_metadata": null, "archive_metadata": null
        }))]
    });
    let draft = read_it(&body).unwrap();
    assert_eq!(draft.job.params.verify_checksum, ChecksumMode::None);
    assert_eq!((draft.job.priority, draft.job.kind), (3, 'N'));
    assert_eq!(draft.job.source_se.as_deref(), Some("https://a.ex"));
    assert_eq!(draft.files[0].activity, "default");
    assert_eq!(draft.files[0].source_token, draft.files[0].destination_token);
    assert_eq!(draft.tokens.len(), 1);
}

#[test]
fn the_catalogues_payload_is_taken_with_its_unknown_keys() {
    let body = json!({
        "files": [one_file(json!({
            "metadata": { "request_id": "82aa", "filesize": 1_048_576 }, "filesize": 1_048_576,
            "checksum": "ADLER32:eb42a518", "selection_strategy": "orderly", "activity": "Data Challenge"
        }))],
        "params": {
            "account": "root", "verify_checksum": "both", "copy_pin_lifetime": null, "bring_online": null,
            "job_metadata": { "issuer": "rucio", "multi_sources": false }, "overwrite": true,
            "overwrite_when_only_on_disk": false, "priority": 3, "s3alternate": true, "max_time_in_queue": 168
        }
    });
    let draft = read_it(&body).unwrap();
    assert_eq!(draft.job.params.verify_checksum, ChecksumMode::Both);
    assert_eq!(draft.job.params.overwrite, Overwrite::Yes);
    assert_eq!(draft.job.params.max_time_in_queue, Some(1000 + 168 * 3600));
    assert_eq!(draft.job.params.internal.as_deref(), Some("s3alternate"));
    assert_eq!(
        draft.files[0].metadata.as_ref().unwrap().get(),
        r#"{"filesize":1048576,"request_id":"82aa"}"#
    );
    assert_eq!(draft.files[0].user_filesize, Some(1_048_576));
}

fn refuses(body: &Value, expected: &str) {
    assert_eq!(read_it(body).unwrap_err().to_string(), expected);
}

#[test]
fn refusals_have_the_texts_clients_know() {
    refuses(&json!([]), "Malformed request: the body is not a JSON object");
    refuses(&json!({ "files": [] }), "No transfers specified");
    refuses(
        &json!({ "delete": ["https://a/f"] }),
        "Deletion jobs are no longer supported by FTS",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "sources": ["/f"] }))] }),
        "Invalid value within the request: Missing scheme (/f)",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "sources": ["http://a/f"] }))] }),
        "Invalid value within the request: Unencrypted transfers are not allowed here, use https or davs (http://a/f)",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "sources": [] }))] }),
        "No valid pairs available",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "source_tokens": ["S"] }))] }),
        "Both source_tokens and destination_tokens are required if one of them is present.",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "source_tokens": ["S", "T"], "destination_tokens": ["D"] }))] }),
        "Length of source_tokens should be equal to the length of sources.",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "source_tokens": [""], "destination_tokens": ["D"] }))] }),
        "Token for source 'https://a.ex/f' is missing.",
    );
    refuses(
        &with_params(json!({ "overwrite": true, "overwrite_on_retry": true })),
        "Incompatible overwrite flags used at the same time",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "scitag": 64 }))] }),
        "Invalid value within the request: Invalid SciTag value: 64 (not in [65, 65535] range)",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "filesize": -1 }))] }),
        "Invalid value within the request: filesize is negative (-1)",
    );
}

fn asks_of_tape(params: Value, expected: [Option<u32>; 3]) {
    let params = read_it(&with_params(params)).unwrap().job.params;
    let asked = [params.bring_online, params.copy_pin_lifetime, params.archive_timeout];
    assert_eq!(asked, expected);
}

#[test]
fn tape_is_asked_for_as_fts_reads_it() {
    // Clients send -1 for an unset value; the default is a week.
    let week = Some(604_800);
    asks_of_tape(
        json!({ "bring_online": -1, "copy_pin_lifetime": -1, "archive_timeout": -1 }),
        [None; 3],
    );
    asks_of_tape(json!({ "bring_online": 0, "copy_pin_lifetime": null }), [None; 3]);
    asks_of_tape(json!({ "bring_online": 60 }), [Some(60), week, None]);
    asks_of_tape(json!({ "copy_pin_lifetime": 60 }), [week, Some(60), None]);
    asks_of_tape(json!({ "archive_timeout": 0 }), [None, None, Some(0)]);
    asks_of_tape(json!({ "archive_timeout": 100 }), [None, None, Some(100)]);
}

#[test]
fn a_file_is_its_own_destination_only_to_be_brought_online() {
    let same = |params: Value| {
        let file = json!({ "sources": ["https://a.ex/f"], "destinations": ["https://a.ex/f"] });
        read_it(&json!({ "params": params, "files": [file] }))
    };
    assert!(same(json!({ "bring_online": 60 })).is_ok());
    assert!(same(json!({})).unwrap_err().to_string().contains("are the same"));
}

fn mode(verify: Value, checksum: Option<&str>, expected: ChecksumMode) {
    let file = checksum.map_or(json!({}), |text| json!({ "checksum": text }));
    let body = json!({ "params": { "verify_checksum": verify }, "files": [one_file(file)] });
    assert_eq!(read_it(&body).unwrap().job.params.verify_checksum, expected);
}

#[test]
fn checksum_modes_follow_the_first_letter_and_the_files() {
    mode(json!("none"), Some("ADLER32:1"), ChecksumMode::None);
    mode(json!("source"), None, ChecksumMode::Source);
    mode(json!("t"), None, ChecksumMode::Target);
    mode(json!("both"), None, ChecksumMode::Both);
    mode(json!(true), None, ChecksumMode::Both);
    mode(json!(false), None, ChecksumMode::None);
    mode(json!(false), Some("ADLER32"), ChecksumMode::Target);
    mode(
        Value::Null,
        Some("md5:d41d8cd98f00b204e9800998ecf8427e"),
        ChecksumMode::Target,
    );
}

#[test]
fn ids_made_from_a_sid_are_those_of_every_other_fts() {
    // uuid5(uuid5(BASE_ID, "testvo"), "sid-1"), computed with Python's uuid module.
    assert_eq!(
        job_id_of("testvo", "sid-1").to_string(),
        "0f9499ed-ed7c-5af5-aae6-a92f3cca308f"
    );
    let draft = read_it(&with_params(json!({ "id_generator": "deterministic", "sid": "sid-1" }))).unwrap();
    assert!(draft.deterministic);
    assert_eq!(draft.job.id, job_id_of("testvo", "sid-1"));
    let draft = read_it(&with_params(json!({ "id_generator": "deterministic", "sid": 7 }))).unwrap();
    assert_eq!(draft.job.id, job_id_of("testvo", "7"));
    refuses(
        &with_params(json!({ "id_generator": "deterministic" })),
        "Deterministic id generator requires 'sid' to be given",
    );
}

#[test]
fn metadata_that_is_no_object_gets_a_label() {
    let body = json!({ "params": { "job_metadata": "mine" }, "files": [one_file(json!({ "metadata": "{\"k\":1}" }))] });
    let draft = read_it(&body).unwrap();
    assert_eq!(draft.job.metadata.unwrap().get(), r#"{"label":"mine"}"#);
    assert_eq!(draft.files[0].metadata.as_ref().unwrap().get(), r#"{"k":1}"#);
    refuses(
        &json!({ "files": [one_file(json!({ "staging_metadata": "x" }))] }),
        "Invalid value within the request: Staging metadata not in JSON format",
    );
    let long = "x".repeat(3000);
    assert!(read_it(&with_params(json!({ "job_metadata": long }))).is_err());
}

#[test]
fn each_token_is_kept_once_and_never_printed() {
    let file = || one_file(json!({ "source_tokens": ["SRC-TOKEN"], "destination_tokens": ["DST-TOKEN"] }));
    let draft = read_it(&json!({ "files": [file(), file(), file()] })).unwrap();
    assert_eq!(draft.tokens.len(), 2);
    assert!(!format!("{draft:?}").contains("SRC-TOKEN"));
}

#[test]
fn a_wall_time_has_an_end() {
    // A time that cannot be added to a clock once stopped the service, and again at each start.
    for (given, seconds) in [
        (json!(90), 90),
        (json!(i64::MAX), TIMEOUT_MAX),
        (json!("99999999"), TIMEOUT_MAX),
    ] {
        let draft = read_it(&with_params(json!({ "timeout": given }))).unwrap();
        assert_eq!(draft.job.params.timeout, Some(seconds));
    }
}

#[test]
fn times_in_the_queue_are_hours_or_have_a_unit() {
    for (given, seconds) in [
        (json!(2), 7200),
        (json!("30s"), 30),
        (json!("5m"), 300),
        (json!("6h"), 21600),
        (json!("1"), 3600),
    ] {
        let draft = read_it(&with_params(json!({ "max_time_in_queue": given }))).unwrap();
        assert_eq!(draft.job.params.max_time_in_queue, Some(1000 + seconds));
    }
    for none in [json!(0), Value::Null] {
        assert_eq!(
            read_it(&with_params(json!({ "max_time_in_queue": none })))
                .unwrap()
                .job
                .params
                .max_time_in_queue,
            None
        );
    }
}

fn hop(from: &str, to: &str) -> Value {
    json!({ "sources": [from], "destinations": [to] })
}

#[test]
fn several_sources_of_one_file_are_one_job() {
    let many = one_file(json!({
        "sources": ["https://a.ex/f", "davs://c.ex/f"], "selection_strategy": "orderly",
        "source_tokens": ["A", "C"], "destination_tokens": ["B"]
    }));
    let draft = read_it(&json!({ "files": [many], "params": { "retry": 2, "dst_file_report": true } })).unwrap();
    assert_eq!(draft.job.kind, 'R');
    assert_eq!(draft.files.iter().map(|file| file.index).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(
        (draft.job.source_se.as_deref(), draft.job.dest_se.as_deref()),
        (None, Some("https://b.ex"))
    );
    assert_eq!(draft.job.params.selection_strategy.as_deref(), Some("orderly"));
    assert_eq!((draft.job.params.retry, draft.job.params.dst_file_report), (2, true));
    assert_eq!(draft.tokens.len(), 3);
    assert_ne!(draft.files[0].source_token, draft.files[1].source_token);
    assert_eq!(draft.files[0].destination_token, draft.files[1].destination_token);

    let two = json!({ "sources": ["https://a.ex/f", "https://c.ex/f"], "destinations": ["https://b.ex/f"] });
    refuses(
        &json!({ "files": [two, two] }),
        "Multiple replica jobs must only have one unique file",
    );
    for params in [json!({ "multihop": true }), json!({ "reuse": true })] {
        refuses(
            &json!({ "files": [two], "params": params }),
            "Can not request multiple replica job together with multihop or session reuse at the same time",
        );
    }
    refuses(
        &json!({ "files": [one_file(json!({ "destinations": ["https://b.ex/f", "https://c.ex/f"] }))] }),
        "File transfers with multiple destinations are not allowed.",
    );
    refuses(
        &json!({ "files": [one_file(json!({ "selection_strategy": "best" }))] }),
        "best algorithm is not supported by Scheduler",
    );
}

#[test]
fn hops_are_files_in_order() {
    let hops = json!([
        hop("https://a.ex/f", "https://b.ex/f"),
        hop("https://b.ex/f", "https://c.ex/f")
    ]);
    let draft = read_it(&json!({ "files": hops, "params": { "multihop": true, "overwrite_hop": true } })).unwrap();
    assert_eq!((draft.job.kind, draft.job.params.hops), ('H', Some(2)));
    assert_eq!(draft.files.iter().map(|file| file.index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(
        (draft.job.source_se.as_deref(), draft.job.dest_se.as_deref()),
        (Some("https://a.ex"), Some("https://c.ex"))
    );
    assert_eq!(draft.job.params.overwrite, Overwrite::Hop);
    assert!(draft.job.params.is_on_the_way(0) && !draft.job.params.is_on_the_way(1));
}

#[test]
fn overwrite_modes_fit_the_job() {
    refuses(
        &with_params(json!({ "overwrite_hop": true })),
        "'overwrite-hop' requires multihop job submission",
    );
    refuses(
        &with_params(json!({ "overwrite_when_only_on_disk": true })),
        "'overwrite-when-only-on-disk' requires 'archive-timeout' to be set",
    );
    for pair in [
        json!({ "overwrite": true, "overwrite_hop": true }),
        json!({ "overwrite_on_retry": true, "overwrite_when_only_on_disk": true }),
    ] {
        refuses(&with_params(pair), "Incompatible overwrite flags used at the same time");
    }
}

/// Names that are remembered for ever could be made up by the thousand.
#[test]
fn names_and_urls_have_bounds() {
    let to = |n: usize, long: usize| {
        let files = (0..n).map(|n| {
            let url = format!("https://a{n}.ex/{}", "x".repeat(long));
            json!({ "sources": [url], "destinations": ["https://b.ex/f?authz=1"] })
        });
        json!({ "files": files.collect::<Vec<_>>() })
    };
    let draft = read_it(&to(499, 1)).unwrap();
    assert_eq!(draft.storages.len(), 500);
    assert_eq!(draft.storages.last().map(String::as_str), Some("https://b.ex"));
    refuses(
        &to(500, 1),
        "The files of one job name 501 storage elements, at most 500 are taken; split the job",
    );
    assert_eq!(draft.links.len(), 499);
    let mesh = |n: usize| {
        let files = (0..n * n).map(|place| {
            let (source, destination) = (
                format!("https://a{}.ex/f", place / n),
                format!("https://b{}.ex/f", place % n),
            );
            json!({ "sources": [source], "destinations": [destination] })
        });
        json!({ "files": files.collect::<Vec<_>>() })
    };
    assert_eq!(read_it(&mesh(44)).unwrap().links.len(), 44 * 44);
    refuses(
        &mesh(45),
        "The files of one job use 2025 links between storage elements, at most 2000 are taken; split the job",
    );
    refuses(
        &to(1, 9000),
        "Invalid value within the request: a URL has 9014 bytes, at most 8192 are taken",
    );
    let activities = (0..101).map(|n| one_file(json!({ "activity": format!("a{n}") })));
    refuses(
        &json!({ "files": activities.collect::<Vec<_>>() }),
        "The files of one job name 101 activities, at most 100 are taken; split the job",
    );
}

#[test]
fn a_value_that_a_database_cannot_hold_is_refused() {
    for key in ["source_spacetoken", "spacetoken", "destination_spacetoken"] {
        assert!(read_it(&with_params(json!({ key: "a\u{0}b" }))).is_err(), "{key}");
        assert!(read_it(&with_params(json!({ key: "TOKEN ü" }))).is_ok(), "{key}");
    }
    for (extra, taken) in [
        (json!({ "activity": "a\u{0}b" }), false),
        (json!({ "filesize": 9_007_199_254_740_993_i64 }), false),
        (json!({ "filesize": i64::MAX }), false),
        (json!({ "filesize": 9_007_199_254_740_992_i64 }), true),
    ] {
        let read = read_it(&json!({ "files": [one_file(extra.clone())] }));
        assert_eq!(read.is_ok(), taken, "{extra}");
    }
}
