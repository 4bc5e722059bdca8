#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relational::fuzz::fuzz_row(data));
