#![no_main]

use interchange::rows::{Format, fuzz};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    fuzz::rows(Format::Parquet, data);
});
