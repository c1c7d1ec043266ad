//! Runs `fuzz_targets::jwt_reject::keys` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::jwt_reject::keys::run(input);
});
