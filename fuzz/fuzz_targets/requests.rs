#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bigtable::fuzz::requests(data);
});
