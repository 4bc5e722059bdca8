//! Shares of values, as `docs/hits.md` states them. They are exact for a seed; the bounds leave room for
//! changes of the generator that keep the documented shares.

use super::super::{COLUMNS, ColumnType, Hits, Row, TextForm};
use super::{at, number, text};
use std::collections::{HashMap, HashSet};

const ROWS: u64 = 40_000;
const SEED: u64 = 1;

type Condition = Box<dyn Fn(&Row) -> bool>;

fn is(name: &str, value: i64) -> Condition {
    let column = at(name);
    Box::new(move |row| number(row, column) == value)
}

fn empty(name: &str) -> Condition {
    let column = at(name);
    Box::new(move |row| text(row, column).is_empty())
}

#[test]
fn values_have_their_shares() {
    // Name, condition, least and greatest share in percent.
    let cases: Vec<(&str, Condition, f64, f64)> = vec![
        ("no phrase", empty("SearchPhrase"), 85.0, 89.0),
        ("no engine", is("SearchEngineID", 0), 85.0, 89.0),
        ("no advertiser", is("AdvEngineID", 0), 98.9, 99.7),
        ("no phone model", empty("MobilePhoneModel"), 91.0, 97.0),
        ("no referer", empty("Referer"), 16.0, 22.0),
        ("no title", empty("Title"), 1.5, 6.0),
        ("no parameters", empty("Params"), 91.0, 95.0),
        ("no address", empty("URL"), 0.0, 0.0),
        ("counter 62", is("CounterID", 62), 6.5, 9.5),
        ("counter 3922", is("CounterID", 3_922), 18.0, 22.0),
        ("region 229", is("RegionID", 229), 15.0, 21.0),
        ("region 2", is("RegionID", 2), 5.0, 9.0),
        ("from the same site", is("TraficSourceID", -1), 58.0, 62.0),
        ("refresh", is("IsRefresh", 1), 9.0, 11.0),
        ("link", is("IsLink", 1), 5.0, 6.0),
        ("download", is("IsDownload", 1), 0.2, 0.6),
        ("not counted", is("DontCountHits", 1), 1.6, 2.4),
        ("no flash id", is("FUniqID", 0), 45.0, 55.0),
        ("good event", is("GoodEvent", 1), 100.0, 100.0),
        ("cookies", is("CookieEnable", 1), 100.0, 100.0),
        ("no social network", empty("SocialNetwork"), 99.6, 99.95),
        ("no campaign", empty("UTMCampaign"), 99.6, 99.95),
        ("no order", empty("ParamOrderID"), 99.5, 99.9),
        ("no tag", empty("FromTag"), 99.1, 99.7),
    ];
    let mut counts = vec![0u64; cases.len()];
    Hits::new(SEED, ROWS)
        .visit(0..ROWS, |row| {
            for ((_, condition, ..), count) in cases.iter().zip(&mut counts) {
                *count += u64::from(condition(row));
            }
            Ok::<_, ()>(())
        })
        .unwrap();
    for ((name, _, least, most), count) in cases.iter().zip(counts) {
        let share = 100.0 * count as f64 / ROWS as f64;
        assert!((*least..=*most).contains(&share), "{name}: {share:.3} %, seed {SEED}");
    }
}

#[test]
fn columns_have_as_many_values_as_documented() {
    let cases = [
        ("WatchID", 40_000..=40_000),
        ("UserID", 8_000..=13_000),
        ("ClientIP", 8_000..=13_000),
        ("URL", 18_000..=27_000),
        ("Referer", 13_000..=21_000),
        ("Title", 16_000..=24_000),
        ("SearchPhrase", 1_500..=4_000),
        ("CounterID", 1_500..=6_502),
        ("RegionID", 1_000..=6_011),
        ("EventDate", 31..=31),
        ("ResolutionWidth", 8..=12),
        ("AdvEngineID", 4..=12),
        ("MobilePhoneModel", 5..=10),
        ("HitColor", 8..=8),
        ("GoodEvent", 1..=1),
    ];
    let columns = cases.each_ref().map(|(name, _)| at(name));
    let mut seen: Vec<HashSet<String>> = vec![HashSet::new(); cases.len()];
    Hits::new(SEED, ROWS)
        .visit(0..ROWS, |row| {
            for (column, seen) in columns.iter().zip(&mut seen) {
                seen.insert(format!("{:?}", row.value(*column)));
            }
            Ok::<_, ()>(())
        })
        .unwrap();
    for ((name, bounds), seen) in cases.iter().zip(seen) {
        assert!(bounds.contains(&seen.len()), "{name}: {} values, seed {SEED}", seen.len());
    }
}

/// The visitor who comes most often has about as many rows as the next three together, and half of the
/// visitors come once or twice.
#[test]
fn visitors_follow_a_power_law() {
    let user = at("UserID");
    let mut rows_of: HashMap<i64, u64> = HashMap::new();
    Hits::new(SEED, ROWS)
        .visit(0..ROWS, |row| {
            *rows_of.entry(number(row, user)).or_default() += 1;
            Ok::<_, ()>(())
        })
        .unwrap();
    let mut counts: Vec<u64> = rows_of.into_values().collect();
    counts.sort_unstable_by(|left, right| right.cmp(left));
    assert!((60..=250).contains(&counts[0]), "the first of {:?}, seed {SEED}", &counts[..5]);
    let seldom = counts.iter().filter(|count| **count <= 2).count();
    assert!((counts.len() / 2..counts.len() * 9 / 10).contains(&seldom), "{seldom}, seed {SEED}");
}

#[test]
fn lines_are_about_713_bytes_with_cyrillic_text() {
    let mut out = Vec::new();
    Hits::new(SEED, ROWS).write(TextForm::Tsv, 0..ROWS / 4, &mut out).unwrap();
    let mean = out.len() as f64 / (ROWS / 4) as f64;
    assert!((690.0..=735.0).contains(&mean), "{mean} bytes, seed {SEED}");
    let text = String::from_utf8(out).unwrap();
    let cyrillic = text.chars().filter(|char| ('а'..='я').contains(char)).count();
    let share = cyrillic as f64 / text.len() as f64;
    assert!((0.05..0.12).contains(&share), "{share} of the bytes begin a letter, seed {SEED}");
}

#[test]
fn numbers_stay_in_the_ranges_that_sums_of_queries_need() {
    let hits = Hits::new(SEED, ROWS);
    let small: Vec<usize> = (0..COLUMNS.len())
        .filter(|index| COLUMNS[*index].column_type == ColumnType::SmallInt)
        .collect();
    let (ip, user, width) = (at("ClientIP"), at("UserID"), at("ResolutionWidth"));
    let windows = [at("WindowClientWidth"), at("WindowClientHeight")];
    hits.visit(0..ROWS, |row| {
        // Query 35 subtracts 3 in 32 bits, query 29 adds 89 in 16 bits.
        assert!(number(row, ip) >= i64::from(i32::MIN) + 3);
        assert!((1..=i64::from(i16::MAX) - 89).contains(&number(row, width)));
        assert!(number(row, user) >= 0);
        let positive = |column: &usize| number(row, *column) > 0;
        assert!(windows.iter().all(positive), "a window has a size");
        assert!(small.iter().all(|column| number(row, *column) >= -1));
        Ok::<_, ()>(())
    })
    .unwrap();
}
