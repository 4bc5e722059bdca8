#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::manifest::fuzz::manifest_edit(data));
