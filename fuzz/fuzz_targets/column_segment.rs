#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| columnar::fuzz::fuzz_descriptor(data));
