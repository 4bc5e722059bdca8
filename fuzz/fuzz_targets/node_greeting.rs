#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::link::fuzz_greeting(data));
