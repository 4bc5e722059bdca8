#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::directory::fuzz_records(data));
