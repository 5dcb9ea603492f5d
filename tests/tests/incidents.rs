//! The library of incidents, as a user meets it.
#![allow(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

use std::fs;

use anyhow::Result;
use serde_json::Value;
use weir_tests::weir;

/// An incident would be listed and not run, or run and show something else than its file says.
#[test]
fn the_whole_library_shows_and_is_mended() -> Result<()> {
    let listed = weir(&["incident", "list", "--json"])?;
    let list: Value = serde_json::from_str(&listed.stdout)?;
    let incidents = list["data"]["incidents"].as_array().unwrap();
    assert_eq!((listed.code, incidents.len()), (Some(0), 100));
    let ran = weir(&["incident", "run", "--all", "--json"])?;
    let ran: Value = serde_json::from_str(&ran.stdout)?;
    let ran = ran["data"].as_array().unwrap();
    assert_eq!(ran.len(), 100);
    let wrong: Vec<&Value> = ran.iter().filter(|one| one["ok"] != true).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// A file that does not show what it expects would pass, or one of the user's own would not be read.
#[test]
fn a_file_of_ones_own_is_judged() -> Result<()> {
    let shown = weir(&["incident", "show", "j6", "--toml"])?;
    let scratch = tempfile::tempdir()?;
    let own = scratch.path().join("own.toml");
    fs::write(&own, &shown.stdout)?;
    let own = own.to_string_lossy().into_owned();
    let good = weir(&["incident", "run", &own])?;
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.stdout.starts_with("✓ INC-J6"), "{}", good.stdout);
    fs::write(&own, shown.stdout.replace("wait = \"disk\"", "wait = \"network\""))?;
    let bad = weir(&["incident", "run", &own])?;
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert!(
        bad.stdout
            .contains("the largest cause is disk rse-out:JINR, not network rse-out:JINR"),
        "{}",
        bad.stdout
    );
    Ok(())
}

#[test]
fn unknown_incidents_are_told_so() -> Result<()> {
    for (id, said) in [
        ("J77", "there is no incident J77"),
        ("D43", "INC-D43 cannot be made yet: it needs tape"),
        ("nothing.toml", "could not be read"),
    ] {
        let told = weir(&["incident", "show", id])?;
        assert_eq!(told.code, Some(2), "{told:?}");
        assert!(told.stderr.contains(said), "{}", told.stderr);
    }
    let shown = weir(&["incident", "show", "INC-D11"])?;
    assert!(
        shown.stdout.contains("class   scheduler-policy") && shown.stdout.contains("remedy  "),
        "{}",
        shown.stdout
    );
    Ok(())
}

/// An incident would show in the simulator alone, or its remedy not mend real services.
#[test]
fn a_sample_of_incidents_shows_on_real_services() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let run = |id: &str| -> Result<Value> {
        let out = scratch.path().join(id);
        let ran = weir(&[
            "incident",
            "run",
            id,
            "--real",
            "--json",
            "--out",
            &out.to_string_lossy(),
        ])?;
        anyhow::ensure!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        Ok(ran.envelope()?["data"]["ran"][0].clone())
    };
    // A machine whose disk stands still for seconds is no fault of the incident.
    let steadily = |id: &str| -> Result<Value> {
        let mut ran = run(id)?;
        for _ in 0..2 {
            if ran["ok"] != true {
                ran = run(id)?;
            }
        }
        Ok(ran)
    };
    // A finding of the audit, and a deficit with an error of its own.
    let ran = std::thread::scope(|scope| {
        let threads = ["INC-D47", "INC-M7"].map(|id| scope.spawn(move || steadily(id)));
        threads.map(|thread| thread.join().unwrap())
    });
    for ran in ran {
        let ran = ran?;
        assert_eq!((&ran["ok"], &ran["world"]), (&true.into(), &"real".into()), "{ran:#}");
    }
    Ok(())
}
