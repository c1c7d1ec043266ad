//! The case files: one test for each, and proof that none is forgotten.

use std::collections::BTreeSet;

use local_rate_limit::counters::Allowed;

use super::LOCAL_RATE_LIMIT;
use crate::suite::{Cases, case_files};

case_files! {
    LOCAL_RATE_LIMIT;
    announced "announced";
    clients "clients";
    cost "cost";
    enablement_none "enablement-none";
    enforcement_none "enforcement-none";
    enforcement_shadow "enforcement-shadow";
    protocols "protocols";
    refusals "refusals";
    several "several";
    shipped "shipped";
    sources "sources";
    text_configuration "text-configuration";
}

/// Two need a course of events.
#[test]
fn every_way_through_has_a_case() {
    let cases = Cases::of(&LOCAL_RATE_LIMIT);
    let mut covered = BTreeSet::new();
    for file in FILES {
        for case in cases.read(file).unwrap().cases {
            covered.extend([&case.expect].into_iter().chain(&case.then).filter_map(|it| it.answer.clone()));
        }
    }
    for allowed in Allowed::ALL.iter().map(|allowed| allowed.label()) {
        let elsewhere = ["contention", "host_failure"].contains(&allowed);
        assert!(covered.contains(allowed) != elsewhere, "{allowed}");
    }
}
