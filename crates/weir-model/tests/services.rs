//! Services that run elsewhere, as grid files name them.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::path::Path;

use weir_model::{CatalogLogin, ClientCertificate, ExternalIssuer, ExternalTransfer, Grid, GridIssuer};

/// A run would ask the wrong service, or submit to one with a token for another.
#[test]
fn services_that_run_elsewhere() {
    let text = "name = \"g\"\n[[rse]]\nname = \"A\"\n[issuer]\nurl = \"https://iam.example.org/\"\nclient_id = \"weir\"\n\
                secret_file = \"secret\"\nca = \"i.pem\"\n[transfer]\nurl = \"https://fts.example.org:8446/\"\nca = \"f.pem\"\nretries = 5\n";
    let grid = Grid::parse(text, Path::new("grids/elsewhere.toml")).unwrap();
    let issuer = ExternalIssuer {
        url: "https://iam.example.org/".to_owned(),
        client_id: "weir".to_owned(),
        secret_file: "grids/secret".into(),
        ca: Some("grids/i.pem".into()),
    };
    assert_eq!(grid.issuer, GridIssuer::External(issuer));
    let service = ExternalTransfer {
        url: "https://fts.example.org:8446".to_owned(),
        ca: Some("grids/f.pem".into()),
        audience: "https://fts.example.org:8446".to_owned(),
        token_file: None,
        certificate: None,
    };
    assert_eq!(grid.transfer_service, Some(service));
    assert_eq!(grid.transfer.retries, 5);
    let again = Grid::parse(&grid.to_toml().to_string(), Path::new("again.toml")).unwrap();
    assert_eq!(again, grid);

    for (from, to, part) in [
        ("client_id = \"weir\"\n", "", "add client_id"),
        ("secret_file = \"secret\"\n", "", "add secret_file"),
        (
            "[issuer]\n",
            "[issuer]\nhost = \"h.example.org\"\n",
            "is for the grid's own issuer",
        ),
        ("https://iam", "http://iam", "the scheme is http"),
        (
            "url = \"https://iam.example.org/\"\n",
            "",
            "is for an issuer that runs elsewhere",
        ),
        ("https://fts", "http://fts", "the scheme is http"),
        (
            "url = \"https://fts.example.org:8446/\"\n",
            "",
            "is for a transfer service that runs elsewhere",
        ),
    ] {
        let problems = Grid::parse(&text.replacen(from, to, 1), Path::new("g.toml")).unwrap_err();
        let told = problems.iter().map(ToString::to_string).collect::<String>();
        assert!(told.contains(part), "{from} -> {to}: {told}");
    }
}

/// A run would make rules in another's name, or log in otherwise than it was told.
#[test]
fn a_catalogue_that_runs_elsewhere() {
    let start =
        "name = \"g\"\n[[rse]]\nname = \"A\"\n[catalog]\nurl = \"https://rucio.example.org/\"\naccount = \"jdoe\"\n";
    let read = |more: &str| Grid::parse(&format!("{start}{more}"), Path::new("grids/g.toml"));
    let service = |more: &str| {
        let grid = read(more).unwrap();
        let again = Grid::parse(&grid.to_toml().to_string(), Path::new("again.toml")).unwrap();
        assert_eq!(again, grid);
        grid.catalog.unwrap().service.unwrap()
    };
    let token = |audience: &str, scope: &str, file: Option<&str>| CatalogLogin::Token {
        audience: audience.to_owned(),
        scope: scope.to_owned(),
        token_file: file.map(Into::into),
    };
    let plain = service("");
    assert_eq!(
        (plain.url.as_str(), plain.auth_url.as_str()),
        ("https://rucio.example.org", "https://rucio.example.org")
    );
    assert_eq!(
        (plain.account.as_str(), plain.scope.as_str()),
        ("jdoe", "weir-challenge")
    );
    assert_eq!(plain.login, token("https://rucio.example.org", "fts", None));
    let named =
        service("audience = \"rucio\"\ntoken_scope = \"openid profile\"\ntoken_file = \"t\"\nscope = \"user.jdoe\"\n");
    assert_eq!(
        (named.login, named.scope.as_str()),
        (token("rucio", "openid profile", Some("grids/t")), "user.jdoe")
    );
    let password = service("auth_url = \"https://auth.example.org\"\nuser = \"jd\"\npassword_file = \"p\"\n");
    assert_eq!(password.auth_url, "https://auth.example.org");
    let login = CatalogLogin::Password {
        user: "jd".to_owned(),
        password_file: "grids/p".into(),
    };
    assert_eq!(password.login, login);
    let (certificate, key) = ("grids/c.pem".into(), "grids/k.pem".into());
    let login = CatalogLogin::Certificate(ClientCertificate { certificate, key });
    assert_eq!(service("certificate = \"c.pem\"\nkey = \"k.pem\"\n").login, login);
    let (certificate, key) = ("grids/c.pem".into(), "grids/c.pem".into());
    let login = CatalogLogin::Certificate(ClientCertificate { certificate, key });
    assert_eq!(service("certificate = \"c.pem\"\n").login, login);
    for (more, part) in [
        ("poll = \"1 s\"\n", "is for the grid's own catalogue"),
        ("user = \"jd\"\n", "add password_file"),
        ("key = \"k.pem\"\n", "add certificate"),
        (
            "user = \"jd\"\npassword_file = \"p\"\ntoken_file = \"t\"\n",
            "is one of several ways to log in",
        ),
        ("scope = \"a/b\"\n", "scope"),
    ] {
        let told = read(more)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect::<String>();
        assert!(told.contains(part), "{more}: {told}");
    }
    let refused = |text: &str| Grid::parse(text, Path::new("g.toml")).unwrap_err()[0].to_string();
    assert!(refused(&start.replace("account = \"jdoe\"\n", "")).contains("add account"));
    assert!(refused(&start.replace("jdoe", "j doe")).contains("is not the name of an account"));
    assert!(
        refused(&start.replace("url = \"https://rucio.example.org/\"\n", ""))
            .contains("is for a catalogue that runs elsewhere")
    );
}

/// A service would be shown a token by the one who named a certificate.
#[test]
fn a_transfer_service_that_is_shown_a_certificate() {
    let text = "name = \"g\"\n[[rse]]\nname = \"A\"\n[transfer]\nurl = \"https://fts.example.org\"\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n";
    let grid = Grid::parse(text, Path::new("g.toml")).unwrap();
    let (certificate, key) = ("c.pem".into(), "k.pem".into());
    let shown = grid.transfer_service.as_ref().unwrap().certificate.clone();
    assert_eq!(shown, Some(ClientCertificate { certificate, key }));
    assert_eq!(
        Grid::parse(&grid.to_toml().to_string(), Path::new("again.toml")).unwrap(),
        grid
    );
    let both = format!("{text}token_file = \"t\"\n");
    let told = Grid::parse(&both, Path::new("g.toml")).unwrap_err()[0].to_string();
    assert!(told.contains("this one is shown a certificate"), "{told}");
}

#[test]
fn a_transfer_service_elsewhere_gets_shared_tokens() {
    // Wrong: a run reports tokens per file that no transfer had.
    let text = |more: &str| {
        format!("name = \"g\"\n[[rse]]\nname = \"A\"\n[transfer]\nurl = \"https://fts.example.org\"\n{more}")
    };
    let refused = Grid::parse(&text("tokens = \"per-file\"\n"), Path::new("g.toml")).unwrap_err();
    assert!(refused[0].to_string().contains("beside url"), "{}", refused[0]);
    let grid = Grid::parse(&text(""), Path::new("g.toml")).unwrap();
    let again = Grid::parse(&grid.to_toml().to_string(), Path::new("g.toml")).unwrap();
    assert_eq!(again, grid);
}
