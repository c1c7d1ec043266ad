//! Runs `fuzz_targets::local_rate_limit::configuration` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::local_rate_limit::configuration::run(input);
});
