#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::internals::fuzz::copy_note(data));
