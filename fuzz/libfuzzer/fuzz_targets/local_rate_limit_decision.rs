//! Runs `fuzz_targets::local_rate_limit::decision` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::local_rate_limit::decision::run(input);
});
