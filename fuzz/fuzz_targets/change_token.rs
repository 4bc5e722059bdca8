#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| table::fuzz_change_token(data));
