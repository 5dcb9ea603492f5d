//! Rules of areas, for people whose tokens hold no capability.

use serde_json::json;
use weir_auth::StorageAction::{Create, Modify, Read};
use weir_storage::{AreaConfig, Durability};

use super::{
    certificates::rule,
    lab::{Endpoint, Lab},
};

async fn check(at: &Endpoint, token: &str, method: &str, path: &str, expected: u16) {
    let bearer = format!("Bearer {token}");
    let (method, depth) = match method {
        "LIST" => ("PROPFIND", "1"),
        other => (other, "0"),
    };
    let content = if method == "PUT" { "x" } else { "" };
    let answer = at
        .ask(method, path, &[("authorization", &bearer), ("depth", depth)], content)
        .await;
    assert_eq!(answer.status.as_u16(), expected, "{method} {path}: {}", answer.text());
}

fn group_token(lab: &Lab, groups: &[&str]) -> String {
    lab.issuer.mint(&json!({"scope": "openid", "wlcg.groups": groups}))
}

/// A group would have no rights where the operator gave it some, or some where they gave it none.
#[tokio::test]
async fn groups_have_the_rights_that_rules_give() {
    let lab = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.issuers[0].vo = Some("dune".into());
            config.areas[0].rules = vec![
                rule(&[Read], |rule| rule.vo = Some("dune".into())),
                rule(&[Modify], |rule| {
                    rule.group = Some("/dune/production".into());
                    rule.path = Some("/prod".parse().unwrap());
                }),
            ];
        })
        .await;
    let (member, producer) = (
        group_token(&lab, &["/dune"]),
        group_token(&lab, &["/dune", "/dune/production"]),
    );
    check(&at, &producer, "PUT", "/prod/a/f", 201).await;
    check(&at, &producer, "PUT", "/prod/a/f", 204).await;
    check(&at, &producer, "PUT", "/production", 403).await;
    check(&at, &member, "GET", "/prod/a/f", 200).await;
    check(&at, &member, "LIST", "/prod", 207).await;
    check(&at, &member, "PUT", "/prod/a/g", 403).await;
    check(&at, &member, "DELETE", "/prod/a/f", 403).await;
    check(&at, &lab.token("compute.read"), "GET", "/prod/a/f", 403).await;
    let cut_down = lab
        .issuer
        .mint(&json!({"scope": "storage.read:/x", "wlcg.groups": ["/dune/production"]}));
    check(&at, &cut_down, "PUT", "/prod/a/g", 403).await;
    check(&at, &cut_down, "GET", "/prod/a/f", 403).await;
    let lines = at.log_lines(1).await;
    assert_eq!(lines[0]["vo"], "dune");
}

/// Of areas inside one another the outer one's rules would open the inner one.
#[tokio::test]
async fn rules_end_where_another_area_begins() {
    let lab = Lab::new();
    let inner = lab.dir.path().join("inner");
    let at = lab
        .endpoint("a", |config| {
            config.areas[0].rules = vec![rule(&[Read, Modify], |rule| rule.group = Some("/ops".into()))];
            let rules = vec![rule(&[Create], |rule| rule.group = Some("/dune".into()))];
            config.areas.push(AreaConfig {
                create_root: true,
                rules,
                durability: Durability::Cache,
                ..AreaConfig::new("inner", "/a/inner".parse().unwrap(), inner)
            });
        })
        .await;
    let (ops, dune) = (group_token(&lab, &["/ops"]), group_token(&lab, &["/dune"]));
    check(&at, &ops, "PUT", "/a/f", 201).await;
    check(&at, &ops, "PUT", "/a/inner/f", 403).await;
    check(&at, &ops, "LIST", "/a/inner", 403).await;
    check(&at, &dune, "PUT", "/a/inner/f", 201).await;
    check(&at, &dune, "PUT", "/a/inner/f", 403).await;
    // Directories that lead there can be looked at, and no more.
    check(&at, &dune, "PROPFIND", "/a", 207).await;
    check(&at, &dune, "PROPFIND", "/", 207).await;
    check(&at, &dune, "LIST", "/a", 403).await;
    check(&at, &dune, "GET", "/a/f", 403).await;
    check(&at, &dune, "PUT", "/a/g", 403).await;
}

/// An issuer of one VO would open the area of another.
#[tokio::test]
async fn an_area_may_name_whose_tokens_count() {
    let lab = Lab::new();
    let other = Lab::new();
    let at = lab
        .endpoint("a", |config| {
            config.issuers.push(weir_storage::IssuerConfig::new(&other.issuer.url));
            config.areas[0].issuers = vec![other.issuer.url.clone()];
        })
        .await;
    let answer = at.ask("PUT", "/f", &[], "x").await.expect(403);
    assert!(answer.text().contains("no say over this path"), "{}", answer.text());
    at.ask("PROPFIND", "/", &[("depth", "1")], "").await.expect(403);
}
