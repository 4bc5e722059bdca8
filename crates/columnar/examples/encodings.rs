//! Measures each encoding on columns of several shapes: bytes, and CPU time to encode and to decode.
//! This is the ablation behind docs/columnar.md:
//!
//! ```sh
//! cargo run --release -p columnar --example encodings
//! ```

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int32Array,
    Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use bench_core::{SplitMix64, print, thread_cpu};
use columnar::{
    Choice, Compression, EncodedSegment, EncodingKind, Page, PageOptions, ROWS_MAX, encode_segment,
};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Runs of each step; the fastest one counts.
const REPEATS: usize = 7;
const SEED: u64 = 42;

/// Returns a path of a few words.
fn path(random: &mut SplitMix64) -> String {
    const WORDS: [&str; 8] =
        ["search", "images", "news", "catalogue", "about", "de", "en", "index.html"];
    let mut word = || WORDS[random.below(8) as usize];
    format!("https://{}.example.org/{}/{}", word(), word(), word())
}

/// Returns columns of a full segment with what they are.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let random = &mut SplitMix64(SEED);
    let rows = 0..ROWS_MAX as i64;
    let mut clock = 1_700_000_000_000_000;
    let times = rows.clone().map(|_| {
        clock += 1_000 * random.below(200) as i64;
        Some(clock)
    });
    let times: TimestampMicrosecondArray = times.collect();
    let ids: Int64Array = rows.clone().map(|_| Some(random.below(1 << 62) as i64)).collect();
    let sizes = rows.clone().map(|_| {
        let most = 1 + random.below(2_000);
        Some(random.below(most) as i32)
    });
    let sizes: Int32Array = sizes.collect();
    let states: Int32Array = rows.clone().map(|row| Some((row / 700 % 5) as i32)).collect();
    let zeros: Int64Array = rows.clone().map(|_| Some(0)).collect();
    let sparse =
        rows.clone().map(|_| (random.below(20) == 0).then(|| random.below(1 << 40) as i64));
    let sparse: Int64Array = sparse.collect();
    let prices = rows.clone().map(|_| Some(random.below(100_000) as f64 / 100.0));
    let prices: Float64Array = prices.collect();
    let amounts = rows.clone().map(|_| Some(i128::from(random.below(10_000_000))));
    let amounts: Decimal128Array = amounts.collect();
    let flags: BooleanArray = rows.clone().map(|_| Some(random.below(10) == 0)).collect();
    let countries = rows.clone().map(|_| {
        let most = 1 + random.below(60);
        Some(format!("country-{}", random.below(most)))
    });
    let countries: StringArray = countries.collect();
    let urls = rows.clone().map(|_| {
        let path = path(random);
        Some(format!("{path}?id={}", random.below(1 << 24)))
    });
    let urls: StringArray = urls.collect();
    let bytes = BinaryArray::from(urls.clone());
    let texts = rows.map(|row| Some(if row % 9 == 0 { path(random) } else { String::new() }));
    let texts: StringArray = texts.collect();
    vec![
        ("timestamps, ascending", Arc::new(times) as ArrayRef),
        ("bigint, random", Arc::new(ids)),
        ("integer, small", Arc::new(sizes)),
        ("integer, runs of 700", Arc::new(states)),
        ("bigint, all 0", Arc::new(zeros)),
        ("bigint, 95 % NULL", Arc::new(sparse)),
        ("double, two decimals", Arc::new(prices)),
        ("numeric(38), small", Arc::new(amounts)),
        ("boolean, 10 % true", Arc::new(flags)),
        ("text, 60 values", Arc::new(countries)),
        ("text, URLs", Arc::new(urls)),
        ("bytes, the same URLs", Arc::new(bytes)),
        ("text, mostly empty", Arc::new(texts)),
    ]
}

/// Returns the least CPU time of some repeats, and what the last one returned.
fn timed<T>(mut run: impl FnMut() -> T) -> (Duration, T) {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..REPEATS {
        let before = thread_cpu();
        let result = black_box(run());
        let spent = thread_cpu().saturating_sub(before);
        let least = best.as_ref().map_or(spent, |(least, _)| spent.min(*least));
        best = Some((least, result));
    }
    best.unwrap_or_else(|| (Duration::ZERO, run()))
}

/// Prints a line of the table; nothing if the encoding does not suit the column.
fn measure(name: &str, array: &ArrayRef, options: PageOptions) {
    let (writing, segment) = timed(|| encode_segment(&[(1, array.clone())], &options));
    let EncodedSegment { descriptor, pages } = segment.expect("columns are within the limits");
    let tree = &descriptor.columns[0].pages[0].tree;
    if matches!(options.choice, Choice::Forced(kind) if tree[0] != kind) {
        return;
    }
    let pages: Vec<Buffer> = pages[0].iter().map(Buffer::from_slice_ref).collect();
    let data_type = array.data_type();
    let (whole, _) = timed(|| decode(&pages, data_type, None));
    let few: Vec<u32> = (0..100).collect();
    let few: Vec<u32> = few.iter().map(|row| row * 90).collect();
    let (select, _) = timed(|| decode(&pages[..1], data_type, Some(&few)));
    let tree: Vec<String> = tree.iter().map(ToString::to_string).collect();
    let choice = match options.choice {
        Choice::Sampled => "**sampled**",
        Choice::Deferred => "deferred",
        _ => "",
    };
    print(&format!(
        "| {name} | {choice} | {} | {:?} | {} | {:.2} | {:.2} | {:.3} |",
        tree.join(", "),
        options.compression,
        pages.iter().map(Buffer::len).sum::<usize>() / 1024,
        writing.as_secs_f64() * 1e3,
        whole.as_secs_f64() * 1e3,
        select.as_secs_f64() * 1e3,
    ));
}

/// Decodes pages, or some rows of the first one.
fn decode(pages: &[Buffer], data_type: &DataType, rows: Option<&[u32]>) -> Vec<ArrayRef> {
    let decode = |page: &Buffer| {
        let page = Page::open(page.clone()).expect("a page that was written");
        let array = match rows {
            None => page.decode(data_type),
            Some(rows) => page.decode_rows(data_type, rows),
        };
        array.expect("a page that was written")
    };
    pages.iter().map(decode).collect()
}

fn main() {
    print(
        "| column | choice | encodings | compression | KiB | encode ms | decode ms | 100 rows ms |",
    );
    print("|---|---|---|---|---|---|---|---|");
    for (name, array) in columns() {
        for kind in EncodingKind::ALL {
            let choice = Choice::Forced(kind);
            measure(name, &array, PageOptions { choice, compression: Compression::None });
            if kind == EncodingKind::Plain {
                measure(name, &array, PageOptions { choice, compression: Compression::Lz4 });
                measure(name, &array, PageOptions { choice, compression: Compression::Zstd });
            }
        }
        let choice = Choice::Deferred;
        measure(name, &array, PageOptions { choice, compression: Compression::None });
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            measure(name, &array, PageOptions { choice: Choice::Sampled, compression });
        }
    }
}
