#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    interchange::rows::fuzz::text_records(data);
});
