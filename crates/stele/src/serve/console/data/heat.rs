//! The heat map of a table: uses of its rows by ranges of keys and by time.
//!
//! The ranges have about as many bytes each, so that a hot one stands out. They are cut again for each answer,
//! from the table's row key samples and, for a small table, from keys that are in use. The samples of uses
//! (`table::meter::Heat`) keep keys, so that all times have the same ranges.

use super::super::Console;
use super::super::request::failure::Failure;
use super::super::request::guard::Visitor;
use super::super::request::params::Params;
use super::super::request::shown::{Allowance, Shown};
use super::super::request::work::{answer, within};
use super::{client, of_store};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use base::env::{Clock, SystemClock};
use engine::TreeId;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::SampleRowKeysRequest;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use table::meter::{SLICE, SLICES_MAX, Sample, SampledKey, Slice, Slices, Use};
use table::{Store, TableSchema};

/// Ranges of keys of a map.
const RANGES: usize = 48;
/// Keys and tablets that are listed as hot.
const HOTTEST: usize = 10;
/// Samples that a key needs to be listed: fewer are chance.
const SAMPLES_MIN: u64 = 3;
/// Bytes of all row keys of an answer, and of one.
const KEYS_BYTES_MAX: usize = 64 << 10;
const KEY_BYTES_MAX: usize = 256;

/// Uses of a key, range or tablet, a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Rates {
    reads: f64,
    writes: f64,
}

/// A time of the map, in milliseconds since the Unix epoch.
#[derive(Debug, Serialize)]
struct TimeView {
    begin_ms: i64,
    end_ms: i64,
}

/// A range of keys, from `start` to the start of the next one, with its uses by time.
#[derive(Debug, Serialize)]
struct RangeView {
    start: Shown,
    reads: Vec<f64>,
    writes: Vec<f64>,
}

/// A key with the most uses.
#[derive(Debug, Serialize)]
struct KeyView {
    key: Shown,
    #[serde(flatten)]
    rates: Rates,
    /// Part of all uses of the table.
    part: f64,
}

/// A tablet with the most uses.
#[derive(Debug, Serialize)]
struct TabletView {
    tablet: usize,
    /// Number of its tree, which metrics tell it by.
    tree: u32,
    start: Shown,
    #[serde(flatten)]
    rates: Rates,
}

/// The heat map of a table, with its hottest keys and tablets.
#[derive(Debug, Serialize)]
struct HeatView {
    from_ms: i64,
    to_ms: i64,
    /// Uses that were looked at.
    samples: usize,
    times: Vec<TimeView>,
    ranges: Vec<RangeView>,
    keys: Vec<KeyView>,
    tablets: Vec<TabletView>,
    tablet_count: usize,
}

/// Answers with the map of the table `name`. Its keys are keys of rows, so the visitor must be one who may
/// sample them.
pub(in super::super) async fn heat(
    State(console): State<Arc<Console>>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Failure> {
    let params = Params::of(query, &["name"])?;
    let name = params.required("name")?;
    let table = bigtable::table_name("name", name).map_err(of_store)?;
    visitor.needs("stele.metrics.get")?;
    visitor.needs_on("bigtable.tables.sampleRowKeys", name)?;
    let store = Arc::clone(console.server.store().ok_or_else(Failure::opening)?);
    let place = console.reads.take()?;
    let cuts = within(cuts(&console, &visitor, name)).await?;
    let schema = within(async { store.get_table(&table).await.map_err(of_store) }).await?;
    let told = move || {
        let uses = Uses::of(&schema, store.heat().slices());
        Ok(uses.told(&cuts, SystemClock.now_micros() / 1_000))
    };
    answer(place, told).await
}

/// Returns row keys of a table, ascending, with the bytes before each.
async fn cuts(
    console: &Console,
    visitor: &Visitor,
    name: &str,
) -> Result<Vec<(Vec<u8>, u64)>, Failure> {
    let request =
        SampleRowKeysRequest { table_name: name.to_owned(), ..SampleRowKeysRequest::default() };
    let mut client = client::data(console, visitor)?;
    let mut answers = client.sample_row_keys(client::in_time(request)).await?.into_inner();
    let mut cuts = Vec::new();
    while let Some(answer) = answers.message().await? {
        cuts.push((answer.row_key.to_vec(), answer.offset_bytes.max(0).cast_unsigned()));
    }
    Ok(cuts)
}

/// The uses of a table's rows.
struct Uses<'a> {
    schema: &'a TableSchema,
    /// Trees of the table. A deleted table of the same name had others, and its rows are no concern of who
    /// may see this one.
    trees: BTreeSet<TreeId>,
    all: Slices,
}

impl<'a> Uses<'a> {
    fn of(schema: &'a TableSchema, all: Slices) -> Self {
        Self { schema, trees: schema.tablets.iter().map(|tablet| tablet.tree).collect(), all }
    }

    fn told(&self, cuts: &[(Vec<u8>, u64)], now_ms: i64) -> HeatView {
        let now = self.all.now;
        let ago = |then: Duration| {
            let ago = now.saturating_sub(then).as_millis();
            now_ms.saturating_sub(i64::try_from(ago).unwrap_or(i64::MAX))
        };
        let time = |slice: &Arc<Slice>| TimeView {
            begin_ms: ago(slice.begin),
            end_ms: ago(slice.end.min(now)),
        };
        let mut left = Allowance::of(KEYS_BYTES_MAX);
        let mut show = |first: &[u8], len| left.show(first, len, KEY_BYTES_MAX);
        HeatView {
            from_ms: ago(now.saturating_sub(SLICE * SLICES_MAX as u32)),
            to_ms: now_ms,
            samples: self.samples().count(),
            times: self.all.slices.iter().map(time).collect(),
            ranges: self.ranges(cuts, &mut show),
            keys: self.keys(&mut show),
            tablets: self.tablets(&mut show),
            tablet_count: self.schema.tablets.len(),
        }
    }

    /// Returns the samples of the table with the index of their slice.
    fn samples(&self) -> impl Iterator<Item = (usize, &Sample)> {
        self.all.slices.iter().enumerate().flat_map(|(at, slice)| {
            let of_table = slice.samples.iter().filter(|sample| self.trees.contains(&sample.tree));
            of_table.map(move |sample| (at, sample))
        })
    }

    /// Returns the seconds of a slice so far.
    fn seconds(&self, slice: &Slice) -> f64 {
        slice.end.min(self.all.now).saturating_sub(slice.begin).as_secs_f64().max(1.0)
    }

    fn ranges(
        &self,
        cuts: &[(Vec<u8>, u64)],
        show: &mut impl FnMut(&[u8], usize) -> Shown,
    ) -> Vec<RangeView> {
        let used: BTreeSet<&[u8]> = self.samples().map(|(_, sample)| &*sample.key.first).collect();
        let borders = borders(cuts, &used);
        let none = || vec![0.0; self.all.slices.len()];
        let starts = std::iter::once(&[][..]).chain(borders.iter().map(Vec::as_slice));
        let range = |start: &[u8]| RangeView {
            start: show(start, start.len()),
            reads: none(),
            writes: none(),
        };
        let mut ranges: Vec<_> = starts.map(range).collect();
        for (at, sample) in self.samples() {
            let range = borders.partition_point(|border| **border <= *sample.key.first);
            let rates = match sample.kind {
                Use::Read => &mut ranges[range].reads,
                Use::Write => &mut ranges[range].writes,
            };
            let slice = &self.all.slices[at];
            rates[at] += f64::from(slice.weight) / self.seconds(slice);
        }
        ranges
    }

    /// Returns uses by what `of` makes of a sample: the number of samples, and rates over the whole time,
    /// also over its parts without uses.
    fn sums<K: Ord>(&self, of: impl Fn(&Sample) -> K) -> BTreeMap<K, (u64, Rates)> {
        let seconds = self.all.seconds();
        let mut sums = BTreeMap::<K, (u64, Rates)>::new();
        for (at, sample) in self.samples() {
            let (count, rates) = sums.entry(of(sample)).or_default();
            *count += 1;
            let rate = match sample.kind {
                Use::Read => &mut rates.reads,
                Use::Write => &mut rates.writes,
            };
            *rate += f64::from(self.all.slices[at].weight) / seconds;
        }
        sums
    }

    fn keys(&self, show: &mut impl FnMut(&[u8], usize) -> Shown) -> Vec<KeyView> {
        let sums = self.sums(|sample| sample.key.clone());
        let all: f64 = sums.values().map(|(_, rates)| rates.reads + rates.writes).sum();
        let enough = sums.into_iter().filter(|(_, (count, _))| *count >= SAMPLES_MIN);
        let key = |(key, rates): (SampledKey, Rates)| KeyView {
            key: show(&key.first, key.len),
            rates,
            part: (rates.reads + rates.writes) / all,
        };
        hottest(enough.map(|(key, (_, rates))| (key, rates))).map(key).collect()
    }

    /// Returns the hottest of the tablets that the table has now.
    fn tablets(&self, show: &mut impl FnMut(&[u8], usize) -> Shown) -> Vec<TabletView> {
        let sums = self.sums(|sample| sample.tree);
        let tablets = self.schema.tablets.iter().enumerate().filter_map(|(at, tablet)| {
            let (_, rates) = sums.get(&tablet.tree)?;
            Some((at, *rates))
        });
        let tablet = |(at, rates): (usize, Rates)| {
            let tablet = &self.schema.tablets[at];
            let start = show(&tablet.start, tablet.start.len());
            TabletView { tablet: at, tree: tablet.tree.0, start, rates }
        };
        hottest(tablets).map(tablet).collect()
    }
}

/// Returns those with the most uses, the hottest first.
fn hottest<T>(of: impl Iterator<Item = (T, Rates)>) -> impl Iterator<Item = (T, Rates)> {
    let uses = |(_, rates): &(T, Rates)| rates.reads + rates.writes;
    let mut all: Vec<_> = of.collect();
    all.sort_by(|left, right| uses(right).total_cmp(&uses(left)));
    all.into_iter().take(HOTTEST)
}

/// Returns the inner borders of the ranges, ascending. `cuts` divide the table by bytes; where they are too
/// few, keys of `used` divide it further.
fn borders(cuts: &[(Vec<u8>, u64)], used: &BTreeSet<&[u8]>) -> Vec<Vec<u8>> {
    let all = cuts.last().map_or(0, |(_, bytes)| *bytes);
    let mut borders = BTreeSet::new();
    for part in 1..RANGES as u64 {
        let bytes = u128::from(all) * u128::from(part) / RANGES as u128;
        let at = cuts.partition_point(|(_, before)| u128::from(*before) < bytes);
        // The last cut is the end of the table.
        borders.extend(cuts.get(at).map(|(key, _)| key.clone()).filter(|key| !key.is_empty()));
    }
    let room = RANGES - 1 - borders.len();
    let among_used = |part| used.iter().nth(used.len() * part / (room + 1));
    borders.extend((1..=room).filter_map(among_used).map(|key| key.to_vec()));
    borders.remove::<[u8]>(&[]);
    borders.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|at| format!("{at:05}").into_bytes()).collect()
    }

    fn used(keys: &[Vec<u8>]) -> BTreeSet<&[u8]> {
        keys.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn ranges_have_equally_many_bytes() {
        let keys = keys(10_000);
        // The second half of the keys has nine tenths of the bytes.
        let bytes = |at: u64| if at < 5_000 { at } else { 5_000 + 9 * (at - 5_000) };
        let cuts: Vec<_> = (0u64..).zip(&keys).map(|(at, key)| (key.clone(), bytes(at))).collect();
        let borders = borders(&cuts, &used(&keys));
        assert_eq!(borders.len(), RANGES - 1);
        assert!(borders.is_sorted());
        assert_eq!(borders.iter().filter(|key| **key < b"05000".to_vec()).count(), 4);
    }

    #[test]
    fn a_small_table_is_cut_at_keys_in_use() {
        let end = [(Vec::new(), 100)];
        assert!(borders(&end, &BTreeSet::new()).is_empty());
        assert!(borders(&[], &BTreeSet::from([&b""[..]])).is_empty());
        let few = keys(3);
        assert_eq!(borders(&end, &used(&few)), keys(3));
        let many = keys(1_000);
        let borders = borders(&end, &used(&many));
        assert!(borders.len() == RANGES - 1 && borders.is_sorted());
        assert_eq!(borders[0], b"00020");
    }

    #[test]
    fn the_hottest_come_first() {
        let rates = |reads, writes| Rates { reads, writes };
        let many = (0..100).map(|at| (at, rates(f64::from(at), 0.0)));
        let hot: Vec<_> = hottest(many.chain([(500, rates(1.0, 98.5))])).map(|one| one.0).collect();
        assert_eq!((hot.len(), &hot[..3]), (HOTTEST, &[500, 99, 98][..]));
    }
}
