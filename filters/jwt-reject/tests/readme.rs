//! The README's tables say what the code does.

// All of this is test code, also what is no #[test] itself.
#![allow(clippy::unwrap_used)]

use filter_api::Filter;
use jwt_reject::JwtReject;
use jwt_reject::algorithm::Algorithm;
use jwt_reject::reason::Reason;

const README: &str = include_str!("../README.md");

#[test]
fn the_table_of_reasons_is_that_of_the_code() {
    let table = README.split("<!-- reasons").nth(1).unwrap().split("<!-- end of reasons").next().unwrap();
    let listed: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    let row = |reason: &Reason| format!("| `{}` | {} | {} |", reason.label(), reason.status(), reason.body());
    let own: Vec<String> = Reason::ALL.iter().map(row).collect();
    assert_eq!(listed, own);
}

#[test]
fn every_counter_is_in_the_table() {
    for counter in JwtReject::COUNTERS {
        let family =
            ["refused.reason.", "shadow_refused.reason."].into_iter().find(|it| counter.starts_with(it));
        let name = family.map_or_else(|| (*counter).to_owned(), |family| format!("{family}REASON"));
        assert!(README.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn every_algorithm_is_named() {
    let names: Vec<&str> = Algorithm::ALL.into_iter().map(Algorithm::name).collect();
    assert!(README.contains(&names.join(", ")));
}
