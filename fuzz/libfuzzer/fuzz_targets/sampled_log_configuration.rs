//! Runs `fuzz_targets::sampled_log::configuration` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::sampled_log::configuration::run(input);
});
