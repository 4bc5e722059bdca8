//! Families of the requests to tables, and of the requests to tablets: latency, rows and bytes.

use super::Families;
use super::families::MICROS_PER_SECOND;
use table::meter::{TableCounters, Volume};

/// The rows whose requests are told.
#[derive(Clone, Copy)]
pub(super) enum Scope<'a> {
    /// All rows of the table of this label.
    Table(&'a str),
    /// The rows of one tablet, by the labels of its table and of itself.
    Tablet(&'a str, &'a str),
}

/// Names and meanings of the families of one scope.
struct Texts {
    seconds: [&'static str; 2],
    rows: [&'static str; 2],
    bytes: [&'static str; 2],
}

const OF_TABLES: Texts = Texts {
    seconds: [
        "stele_table_request_seconds",
        "Latency of requests to a table until the last row was taken, by operation and result: ok, refused \
         (the request breaks a rule), busy (no room; it may be tried again), failed, or cancelled by the \
         client.",
    ],
    rows: ["stele_table_rows_total", "Rows that requests read from a table, or wrote to it."],
    bytes: [
        "stele_table_bytes_total",
        "Bytes of keys and values that requests read from a table, or wrote to it.",
    ],
};

const OF_TABLETS: Texts = Texts {
    seconds: [
        "stele_tablet_request_seconds",
        "Latency of requests to one of the hottest tablets, by operation and result. Other has requests to \
         all other tablets, and over several.",
    ],
    rows: [
        "stele_tablet_rows_total",
        "Rows that requests read from one of the hottest tablets, or wrote to it. Other has all other \
         tablets.",
    ],
    bytes: [
        "stele_tablet_bytes_total",
        "Bytes of keys and values that requests read from one of the hottest tablets, or wrote to it. Other \
         has all other tablets.",
    ],
};

impl<'a> Scope<'a> {
    fn texts(self) -> &'static Texts {
        match self {
            Self::Table(_) => &OF_TABLES,
            Self::Tablet(..) => &OF_TABLETS,
        }
    }

    /// Returns the labels of a sample, which begin with `labels`.
    fn labels(self, labels: &[(&'static str, &'a str)]) -> Vec<(&'static str, &'a str)> {
        let mut labels = labels.to_vec();
        match self {
            Self::Table(table) => labels.push(("table", table)),
            Self::Tablet(table, tablet) => labels.extend([("table", table), ("tablet", tablet)]),
        }
        labels
    }
}

/// Adds the requests that `counters` have.
pub(super) fn add(scope: Scope<'_>, counters: &TableCounters, families: &mut Families) {
    let Texts { seconds, rows, bytes } = scope.texts();
    for (operation, outcome, buckets) in counters.latency() {
        let labels = [("operation", operation.label()), ("result", outcome.label())];
        let labels = scope.labels(&labels);
        families.histogram(seconds[0], seconds[1], &labels, &buckets, MICROS_PER_SECOND);
    }
    let Volume { rows_read, read_bytes, rows_written, written_bytes } = counters.volume();
    for (direction, row_count, byte_count) in
        [("read", rows_read, read_bytes), ("written", rows_written, written_bytes)]
    {
        let labels = scope.labels(&[("direction", direction)]);
        families.counter(rows[0], rows[1], &labels, row_count as f64);
        families.counter(bytes[0], bytes[1], &labels, byte_count as f64);
    }
}
