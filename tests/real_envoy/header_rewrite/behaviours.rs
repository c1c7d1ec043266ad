//! The case files: one test for each, and proof that none is forgotten.

use std::collections::BTreeSet;

use header_rewrite::counters::Skipped;

use super::HEADER_REWRITE;
use crate::suite::{Cases, case_files};

case_files! {
    HEADER_REWRITE;
    cookies "cookies";
    envoys_form "envoys-form";
    guarded "guarded";
    hostile "hostile";
    paths "paths";
    preset "preset";
    requests "requests";
    responses "responses";
    shipped "shipped";
}

#[test]
fn every_reason_to_leave_an_operation_out_has_a_case() {
    let cases = Cases::of(&HEADER_REWRITE);
    let mut covered = BTreeSet::new();
    for file in FILES {
        covered.extend(cases.read(file).unwrap().cases.into_iter().filter_map(|case| case.expect.answer));
    }
    for skipped in Skipped::ALL {
        assert!(covered.contains(skipped.label()), "{skipped:?}");
    }
}
