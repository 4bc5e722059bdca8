#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| copy::fuzz::fuzz_copy(data));
