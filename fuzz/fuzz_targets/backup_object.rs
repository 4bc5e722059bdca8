#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| backup::fuzz::small_object(data));
