//! Runs `fuzz_targets::decision` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzz_targets::decision::run(input);
});
