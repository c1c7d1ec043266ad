//! Runs `fuzz_targets::keys` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::keys::run(input);
});
