//! Files that a challenge names: tables and grids.

use weir_plan::{Challenge, Overrides};

use crate::{RATES, rates, with};

/// A traffic table would be misread, or a fault in it reported at the wrong place.
#[test]
fn tables() {
    let folder = tempfile::tempdir().unwrap();
    let challenge = folder.path().join("c.toml");
    std::fs::write(&challenge, with("kind = \"rates\"\ntable = \"t.csv\"\ntest = \"in\"\n")).unwrap();
    let load = |table: &str| {
        std::fs::write(folder.path().join("t.csv"), table).unwrap();
        let text = |problem: &weir_model::Problem| {
            problem
                .to_string()
                .replace(folder.path().to_str().unwrap(), "")
                .trim_start_matches('/')
                .to_owned()
        };
        Challenge::load(&challenge).map_err(|problems| problems.iter().map(text).collect::<Vec<_>>().join("\n"))
    };
    let good = load("test,src,dst,rate_mbps\nin,A,B,1.5\nout,B,A,2\n\nin, \"C\" ,A,3\n").unwrap();
    let plan = good.resolve(&Overrides::default()).unwrap();
    let links: Vec<_> = rates(&plan)
        .links
        .iter()
        .map(|rated| (rated.link.to_string(), rated.rate.0))
        .collect();
    assert_eq!(links, [("A→B".to_owned(), 1_500_000), ("C→A".to_owned(), 3_000_000)]);
    assert!(load("rate,destination,test,source\n1 Gb/s,B,in,A\n").is_ok());
    // As spreadsheets save it.
    assert!(load("\u{feff}source,destination,rate,test\r\nA,B,1 Gb/s,in\r\n").is_ok());
    let bad = |table: &str, expected: &str| assert_eq!(load(table).unwrap_err(), expected, "for\n{table}");
    bad(
        "",
        "c.toml:12: workload.table: the table t.csv is empty; add a header and a row per link",
    );
    bad(
        "test,src,dst\n",
        "t.csv:1: rate: the column is missing; add it to the header test,src,dst",
    );
    bad(
        "tests,src,dst,rate\n",
        "t.csv:1: test: the column is missing; rename \"tests\"",
    );
    bad(
        "test,src,dst,rate\n",
        "c.toml:13: workload.test: t.csv has no row of the test \"in\"; correct the name, or add rows",
    );
    bad(
        "test,src,dst,rate\nin,A,B,5\nin,A,Q,5 Gb/s\nin,A,B,-5 Gb/s\nin,A\nin,A,A,1 b/s\n",
        "t.csv:2: rate: rate \"5\" has no unit; add a unit, such as \"5 Gb/s\"\nt.csv:3: rate: there is no RSE \"Q\" in the grid; use one of A, B, C\nt.csv:4: rate: rate \"-5 Gb/s\" is negative; write a number and a unit, such as \"5 Gb/s\"\nt.csv:5: destination: the name is empty; write the name of an RSE\nt.csv:6: rate: A→A goes nowhere; name two different RSEs",
    );
    bad(
        "test,src,dst,rate\nin,A,B,5 Gb/s\nin,A,B,6 Gb/s\n",
        "t.csv:3: A→B is there twice, first on line 2; add the rates up",
    );
}

/// A grid file of its own would not be found, or its faults be reported in the challenge.
#[test]
fn grids_in_their_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let challenge = folder.path().join("c.toml");
    std::fs::write(
        &challenge,
        format!("name = \"c\"\ngrid = \"g.toml\"\n[[workload]]\n{RATES}"),
    )
    .unwrap();
    let first = || {
        Challenge::load(&challenge)
            .map(|c| c.grid.rses.len())
            .map_err(|p| p[0].to_string())
    };
    assert!(
        first()
            .unwrap_err()
            .contains("c.toml:2: grid: the grid file g.toml could not be read: no such file")
    );
    std::fs::write(
        folder.path().join("g.toml"),
        "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nnam = \"B\"\n",
    )
    .unwrap();
    assert!(first().unwrap_err().contains("g.toml:4: rse.name: is missing"));
    std::fs::write(
        folder.path().join("g.toml"),
        "name = \"g\"\n[[rse]]\nname = \"A\"\n[[rse]]\nname = \"B\"\n",
    )
    .unwrap();
    assert_eq!(first(), Ok(2));
}
