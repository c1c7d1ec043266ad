//! Runs `fuzz_targets::jwt_reject::decision` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::jwt_reject::decision::run(input);
});
