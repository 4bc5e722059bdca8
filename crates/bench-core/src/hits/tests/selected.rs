//! The conditions of ClickBench's 43 queries select rows: in a small table, and where queries skip groups or ask
//! for large ones, in a table of 1,000,000 rows.

use super::super::{Hits, Row};
use super::{at, number, text};
use std::collections::{HashMap, HashSet};

type Condition = Box<dyn Fn(&Row) -> bool>;

/// Queries that have no condition.
const ALL_ROWS: [usize; 17] = [0, 2, 3, 4, 5, 6, 8, 9, 15, 16, 17, 18, 29, 32, 33, 34, 35];

/// Returns groups of queries with the text of their condition and the condition.
fn conditions() -> Vec<(Vec<usize>, &'static str, Condition)> {
    let not = |name, value: i64| -> Condition {
        let column = at(name);
        Box::new(move |row| number(row, column) != value)
    };
    let present = |name| -> Condition {
        let column = at(name);
        Box::new(move |row| !text(row, column).is_empty())
    };
    let (url, title, phrase, user) = (at("URL"), at("Title"), at("SearchPhrase"), at("UserID"));
    let google = move |row: &Row| text(row, url).contains("google");
    let searched = move |row: &Row| !text(row, phrase).is_empty();
    let mut all: Vec<(Vec<usize>, &str, Condition)> = vec![
        (vec![1, 7], "AdvEngineID <> 0", not("AdvEngineID", 0)),
        (vec![10, 11], "MobilePhoneModel <> ''", present("MobilePhoneModel")),
        (vec![12, 13, 14, 24, 25, 26, 30, 31], "SearchPhrase <> ''", present("SearchPhrase")),
        (
            vec![19],
            "UserID = 435090932899640449",
            Box::new(move |row| number(row, user) == 435_090_932_899_640_449),
        ),
        (vec![20, 23], "URL LIKE '%google%'", Box::new(google)),
        (
            vec![21],
            "URL LIKE '%google%' AND SearchPhrase <> ''",
            Box::new(move |row| google(row) && searched(row)),
        ),
        (
            vec![22],
            "Title LIKE '%Google%' AND URL NOT LIKE '%.google.%' AND SearchPhrase <> ''",
            Box::new(move |row| {
                text(row, title).contains("Google")
                    && !text(row, url).contains(".google.")
                    && searched(row)
            }),
        ),
        (vec![27], "URL <> ''", present("URL")),
        (vec![28], "Referer <> ''", present("Referer")),
    ];
    all.extend((36..43).map(|query| (vec![query], "CounterID = 62", dashboard(query))));
    all
}

/// Returns the condition of one of the queries 36 to 42, as the public list has it.
fn dashboard(query: usize) -> Condition {
    let names = ["CounterID", "IsRefresh", "DontCountHits", "IsLink", "IsDownload", "EventDate"];
    let [counter, refresh, ignored, link, download, date] = names.map(at);
    let [source, referer_hash, url_hash] = ["TraficSourceID", "RefererHash", "URLHash"].map(at);
    let [url, title] = ["URL", "Title"].map(at);
    Box::new(move |row| {
        let is = |column, value| number(row, column) == value;
        let counted = is(ignored, 0);
        let rest = match query {
            36 => counted && !text(row, url).is_empty(),
            37 => counted && !text(row, title).is_empty(),
            38 => !is(link, 0) && is(download, 0),
            39 => true,
            40 => (is(source, -1) || is(source, 6)) && is(referer_hash, 3_594_120_000_172_545_465),
            41 => counted && is(url_hash, 2_868_770_270_353_813_622),
            42 => counted && (15_900..=15_901).contains(&number(row, date)),
            _ => unreachable!("query {query}"),
        };
        is(counter, 62) && is(refresh, 0) && rest
    })
}

#[test]
fn every_condition_selects_rows_of_a_small_table() {
    let conditions = conditions();
    let mut covered: Vec<usize> = ALL_ROWS.into();
    for (numbers, ..) in &conditions {
        covered.extend(numbers);
    }
    covered.sort_unstable();
    assert_eq!(covered, (0..43).collect::<Vec<_>>());
    for seed in [1, 2, 3] {
        let rows = 30_000;
        let mut counts = vec![0; conditions.len()];
        Hits::new(seed, rows)
            .visit(0..rows, |row| {
                for ((.., condition), count) in conditions.iter().zip(&mut counts) {
                    *count += usize::from(condition(row));
                }
                Ok::<_, ()>(())
            })
            .unwrap();
        for ((numbers, condition, _), count) in conditions.iter().zip(counts) {
            assert!(count > 0, "queries {numbers:?} select nothing by {condition}, seed {seed}");
        }
    }
}

/// Queries 38 to 42 skip groups, so they need more of them than they skip; queries 27 and 28 ask
/// for groups of more than 100,000 rows.
#[test]
fn a_million_rows_have_the_groups_that_queries_skip_or_ask_for() {
    let hits = Hits::new(1, 1_000_000);
    let skipped = [(38, 1_000), (39, 1_000), (40, 100), (41, 10_000), (42, 1_000)];
    let conditions = skipped.map(|(query, _)| dashboard(query));
    let mut groups: [HashSet<String>; 5] = Default::default();
    let mut hosts: HashMap<String, u64> = HashMap::new();
    let mut of_counter = 0;
    let (mut row, referer) = (Row::default(), at("Referer"));
    for number in 0..hits.rows() {
        let counter = hits.model.visit(number).0.counter;
        if counter != 62 && counter != 3_922 {
            continue;
        }
        hits.fill(number, &mut row);
        if counter == 3_922 {
            of_counter += 1;
            let rest = text(&row, referer).split_once("://").map_or("", |(_, rest)| rest);
            let host = rest.split_once('/').map_or("", |(host, _)| host);
            *hosts.entry(host.to_owned()).or_default() += 1;
        }
        for ((query, _), (condition, groups)) in
            skipped.iter().zip(conditions.iter().zip(&mut groups))
        {
            if condition(&row) {
                groups.insert(group(*query, &row));
            }
        }
    }
    for ((query, skipped), groups) in skipped.iter().zip(&groups) {
        assert!(groups.len() >= skipped + 10, "query {query} has {} groups", groups.len());
    }
    assert!(of_counter > 100_000, "query 27 has a group of {of_counter} rows");
    let largest = hosts.iter().filter(|(host, _)| !host.is_empty()).max_by_key(|(_, rows)| **rows);
    assert!(*largest.unwrap().1 > 100_000, "query 28 has {largest:?}");
}

/// Returns the key of a row's group in one of the queries 38 to 42.
fn group(query: usize, row: &Row) -> String {
    let minute = |row: &Row| (number(row, at("EventTime")) / 60).to_string();
    let key = |names: &[&str]| {
        let values: Vec<String> =
            names.iter().map(|name| format!("{:?}", row.value(at(name)))).collect();
        values.join(" ")
    };
    match query {
        38 => key(&["URL"]),
        39 => {
            let source = ["TraficSourceID", "SearchEngineID", "AdvEngineID", "URL"];
            let direct =
                number(row, at("SearchEngineID")) == 0 && number(row, at("AdvEngineID")) == 0;
            key(&source) + if direct { text(row, at("Referer")) } else { "" }
        }
        40 => key(&["URLHash", "EventDate"]),
        41 => key(&["WindowClientWidth", "WindowClientHeight"]),
        42 => minute(row),
        _ => unreachable!("query {query}"),
    }
}
