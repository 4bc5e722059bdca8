#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::member::fuzz_status(data));
