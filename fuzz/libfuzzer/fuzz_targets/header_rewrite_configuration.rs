//! Runs `fuzz_targets::header_rewrite::configuration` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::header_rewrite::configuration::run(input);
});
