//! Refusals name the entry, the key and the remedy.

use weir_sim::flows::Scenario;

#[track_caller]
fn refused(text: &str, expected: &str) {
    let problems = Scenario::parse(text).unwrap_err();
    assert_eq!(problems[0].to_string(), expected);
}

#[track_caller]
fn link(entry: &str, expected: &str) {
    refused(&format!(r#"{{"links": [{entry}]}}"#), &format!("1: {expected}"));
}

#[track_caller]
fn flow(entry: &str, expected: &str) {
    let text =
        "{\"nodes\": [\"A\", \"B\"],\n \"links\": [{\"name\": \"a\", \"bandwidth_bps\": 1e9}],\n \"flows\": [ENTRY]}";
    refused(&text.replace("ENTRY", entry), &format!("3: {expected}"));
}

#[test]
fn links_have_bounds() {
    let remedy = "give bits per second; a link that carries nothing is best left out";
    for (number, shown) in [
        ("0", "0"),
        ("-1e9", "-1000000000"),
        ("0.1", "0.1"),
        ("1e300", &format!("{}", 1e300)),
    ] {
        link(
            &format!(r#"{{"name": "a", "bandwidth_bps": {number}}}"#),
            &format!(
                "links[0].bandwidth_bps: {shown} of link \"a\" is not between 1 and 1000000000000000000; {remedy}"
            ),
        );
    }
    link(
        r#"{"name": "a", "bandwidth_bps": 1e9, "latency_s": -0.1}"#,
        "links[0].latency_s: -0.1 of link \"a\" is not between 0 and 3600; give seconds one way, such as 0.01 for 10 ms",
    );
    link(
        r#"{"name": "a", "bandwidth_bps": 1e9}, {"name": "a", "bandwidth_bps": 1e9}"#,
        "links[1].name: \"a\" is the name of links[0] too; give each link its own name",
    );
}

#[test]
fn a_body_that_is_not_json_names_its_line() {
    refused(
        "{\"links\": [\n{\"name\": \"a\", \"bandwidth_bps\": NaN}]}",
        "2: links[0].bandwidth_bps: expected value; write valid JSON, which has no NaN or Infinity (column 32)",
    );
    refused(
        "",
        "1: EOF while parsing a value; write valid JSON, which has no NaN or Infinity (column 0)",
    );
    refused(
        "{\"links\": [{\"name\": \"a\", \"bandwidth_gbps\": 1}]}",
        "1: links[0].bandwidth_gbps: unknown field `bandwidth_gbps`, expected one of `name`, `bandwidth_bps`, `latency_s`, `policy`; \
         see docs/network-model.md for the keys and their values",
    );
}

/// If this fails, a wrong value among ten thousand in one line cannot be found.
#[test]
fn a_value_of_another_type_names_its_key() {
    let remedy = "see docs/network-model.md for the keys and their values";
    for (text, expected) in [
        (
            "[]",
            "invalid length 0, expected an object with the lists `nodes`, `links`, `routes` and `flows`",
        ),
        (r#"{"links": 7}"#, "links: invalid type: integer `7`, expected a list"),
        (
            r#"{"links": [{"name": "a"}]}"#,
            "links[0]: missing field `bandwidth_bps`",
        ),
        (
            r#"{"links": [{"name": "a", "bandwidth_bps": "10 Gb/s"}]}"#,
            r#"links[0].bandwidth_bps: invalid type: string "10 Gb/s", expected a number"#,
        ),
        (
            r#"{"links": [{"name": "a", "bandwidth_bps": 1, "policy": "wide"}]}"#,
            "links[0].policy: unknown variant `wide`, expected `shared` or `fatpipe`",
        ),
        (r#"{"links": [], "links": []}"#, "links: duplicate field `links`"),
        (
            r#"{"flows": [{"id": 1, "size_bytes": 1, "path": []}, {"id": 1.5, "size_bytes": 1}]}"#,
            "flows[1].id: an id is a whole number or a text",
        ),
        (
            r#"{"flows": [{"id": 1, "size_bytes": true}]}"#,
            "flows[0].size_bytes: a size or a count is a number",
        ),
        (
            r#"{"flows": [{"id": 1, "size_bytes": 1, "path": ["a", 7]}]}"#,
            "flows[0].path[1]: invalid type: integer `7`, expected a string",
        ),
    ] {
        refused(text, &format!("1: {expected}; {remedy}"));
    }
}

/// If this fails, the line is that of another entry.
#[test]
fn the_line_is_that_of_the_key() {
    let text = "{\"links\": [\n {\"name\": \"a\",\n  \"bandwidth_bps\": 1},\n {\"name\": \"b\",\n  \"bandwidth_bps\":\n 0}],\n\
                \"flows\": [\n {\"id\": \"\\\"}\", \"size_bytes\": 0, \"path\": []},\n {\"id\": 2,\n  \"size_bytes\": 0},\n\
                {\"id\": 3, \"size_bytes\": 0, \"path\": [\n\"a\",\n\"c\"]}]}";
    let problems = Scenario::parse(text).unwrap_err();
    let found: Vec<_> = problems
        .iter()
        .map(|problem| (problem.line, problem.key.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (Some(5), "links[1].bandwidth_bps"),
            (Some(9), "flows[1].path"),
            (Some(13), "flows[2].path[1]")
        ]
    );
}

#[test]
fn flows_have_a_path_that_exists() {
    let remedy = "add a route, or give the flow a path (`[]` for one that crosses no link)";
    flow(
        r#"{"id": 1, "size_bytes": 1, "src": "A", "dst": "B"}"#,
        &format!("flows[0].path: flow 1 has none, nor is there a route from \"A\" to \"B\"; {remedy}"),
    );
    flow(
        r#"{"id": 1, "size_bytes": 1, "src": "A"}"#,
        &format!("flows[0].path: flow 1 has none, nor src and dst to find a route by; {remedy}"),
    );
    flow(
        r#"{"id": 1, "size_bytes": 1, "path": ["a", "b"]}"#,
        "flows[0].path[1]: \"b\" is not the name of a link; add it to links, or correct the name",
    );
    flow(
        r#"{"id": 1, "size_bytes": 1, "src": "A", "dst": "C", "path": ["a"]}"#,
        "flows[0].dst: \"C\" is not in nodes; add it to nodes, or correct the name",
    );
}

#[test]
fn flows_have_bounds() {
    flow(
        r#"{"id": 1, "size_bytes": -1, "path": []}"#,
        "flows[0].size_bytes: -1 of flow 1 is not a whole number below 2^64; give whole bytes",
    );
    flow(
        r#"{"id": 1, "size_bytes": 1.5, "path": []}"#,
        "flows[0].size_bytes: 1.5 of flow 1 is not a whole number below 2^64; give whole bytes",
    );
    flow(
        r#"{"id": "x", "start_s": -1, "size_bytes": 1, "path": []}"#,
        "flows[0].start_s: -1 of flow \"x\" is not between 0 and 320000000000; give seconds from the beginning",
    );
    flow(
        r#"{"id": 1, "size_bytes": 1, "streams": 0, "path": []}"#,
        "flows[0].streams: that of flow 1 is not a whole number between 1 and 1000000; \
         give the number of parallel streams; 1 is the default",
    );
    flow(
        r#"{"id": 1, "size_bytes": 1, "rate_limit_bps": 0.5, "path": []}"#,
        "flows[0].rate_limit_bps: 0.5 of flow 1 is not between 1 and 1000000000000000000; \
         give bits per second, or 0 for no limit",
    );
    flow(
        r#"{"id": 1, "size_bytes": 1, "path": []}, {"id": 1, "size_bytes": 1, "path": []}"#,
        "flows[1].id: 1 is the id of flows[0] too; give each flow its own id",
    );
}

#[test]
fn a_flood_of_problems_is_cut_short() {
    let links = vec![r#"{"name": "a", "bandwidth_bps": 0}"#; 1000].join(",");
    let problems = Scenario::parse(&format!(r#"{{"links": [{links}]}}"#)).unwrap_err();
    assert_eq!(problems.len(), 21);
    assert!(problems[20].message.contains("1979 more"), "{}", problems[20]);
}

#[test]
fn a_million_links_are_read_and_run() {
    let links: Vec<String> = (0..1_000_000)
        .map(|at| format!(r#"{{"name":"{at}","bandwidth_bps":8}}"#))
        .collect();
    let text = format!(
        r#"{{"links": [{}], "flows": [{{"id": 1, "size_bytes": 3, "path": ["7", "999999"]}}]}}"#,
        links.join(",")
    );
    let outcome = Scenario::parse(&text)
        .unwrap()
        .run(weir_sim::flows::Model::MaxMin)
        .unwrap();
    assert_eq!(outcome.flows[0].finish.to_string(), "3");
}
