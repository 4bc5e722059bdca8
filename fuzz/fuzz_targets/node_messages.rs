#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::format::fuzz_messages(data));
