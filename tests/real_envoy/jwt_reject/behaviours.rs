//! The case files: one test for each, and proof that none is forgotten.

use std::collections::BTreeSet;

use jwt_reject::reason::Reason;

use super::JWT_REJECT;
use crate::suite::{Cases, case_files, fill};

case_files! {
    JWT_REJECT;
    algorithms "algorithms";
    cache "cache";
    claims "claims";
    gateway_state "gateway-state";
    hostile_headers "hostile-headers";
    leniency "leniency";
    locations "locations";
    paths "paths";
    paths_as_shipped "paths-as-shipped";
    per_route "per-route";
    protocols "protocols";
    public_reports_claim_headers "public-reports-claim-headers";
    public_reports_keys "public-reports-keys";
    public_reports_places "public-reports-places";
    public_reports_shadow "public-reports-shadow";
    public_reports_tokens "public-reports-tokens";
    reasons "reasons";
    refusals "refusals";
    requirements "requirements";
    rules "rules";
    shadow "shadow";
    shipped "shipped";
    stripped_refusals "stripped-refusals";
    text_configuration "text-configuration";
}

#[test]
fn every_reason_and_every_way_through_has_a_case() {
    let cases = Cases::of(&JWT_REJECT);
    let ways_through = ["verified", "no_requirement", "missing", "failed", "no_rule", "cors_preflight"];
    let all: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.label()).chain(ways_through).collect();
    let mut covered = BTreeSet::new();
    let mut names = BTreeSet::new();
    for file in FILES {
        for case in cases.read(file).unwrap().cases {
            assert!(names.insert(format!("{file}: {}", case.name)), "{file}: {} is there twice", case.name);
            for combination in case.combinations() {
                covered.extend(case.expect.answer.iter().map(|answer| fill(answer, &combination).unwrap()));
            }
        }
    }
    let covered: BTreeSet<&str> = covered.iter().map(String::as_str).collect();
    assert_eq!(covered, all, "the answers that cases expect, and those that there are");
    let answers = cases.answers().unwrap();
    assert_eq!(answers.keys().map(String::as_str).collect::<BTreeSet<_>>(), all, "answers.yaml");
}
