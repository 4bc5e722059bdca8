//! The rules of the text format and of names, as `promtool check metrics` and Prometheus's guide have
//! them.

use std::collections::{BTreeMap, BTreeSet};

/// Words of a name that are abbreviations of units, or units that are not base units.
const UNITS_REFUSED: [&str; 33] = [
    "s",
    "ms",
    "us",
    "ns",
    "sec",
    "b",
    "kb",
    "mb",
    "gb",
    "tb",
    "pb",
    "m",
    "h",
    "d",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "kilobytes",
    "kibibytes",
    "megabytes",
    "mebibytes",
    "gigabytes",
    "gibibytes",
    "terabytes",
    "tebibytes",
    "petabytes",
    "bits",
    "percent",
    "percents",
];
/// Words that tell a kind and not a thing.
const KINDS: [&str; 6] = ["counter", "gauge", "histogram", "summary", "untyped", "metric"];

/// Names and values of the labels of a series.
type Labels = Vec<(String, String)>;

/// A family of samples of one name.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) name: String,
    pub(super) kind: String,
    help: String,
    /// Names of the labels of its samples, but for `le`.
    pub(super) labels: BTreeSet<String>,
    samples: Vec<Sample>,
}

/// One line with a value.
#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// A scrape in its parts.
#[derive(Debug, Default)]
pub(super) struct Scrape {
    pub(super) families: Vec<Family>,
}

impl Scrape {
    /// Reads the text format 0.0.4. Fails with the line that breaks it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut scrape = Self::default();
        for line in text.lines() {
            scrape.line(line).ok_or_else(|| format!("malformed or out of its place: {line}"))?;
        }
        if !text.ends_with('\n') {
            return Err("the last line has no end".into());
        }
        Ok(scrape)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ')?;
            let (name, help) = (name.to_owned(), help.to_owned());
            self.families.push(Family { name, help, ..Family::default() });
            return Some(());
        }
        let family = self.families.last_mut()?;
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ')?;
            let is_first = family.kind.is_empty() && family.samples.is_empty();
            family.kind = kind.to_owned();
            return (name == family.name && is_first).then_some(());
        }
        let sample = Sample::parse(line)?;
        let suffix = sample.name.strip_prefix(&family.name)?;
        let suffixes: &[&str] = match family.kind.as_str() {
            "counter" | "gauge" => &[""],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => return None,
        };
        family.labels.extend(sample.labels.keys().filter(|label| *label != "le").cloned());
        suffixes.contains(&suffix).then_some(())?;
        family.samples.push(sample);
        Some(())
    }

    /// Returns the breaches of the rules.
    pub(super) fn lint(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut names = BTreeSet::new();
        for family in &self.families {
            let mut say = |what: &str| wrong.push(format!("{}: {what}", family.name));
            if !names.insert(&family.name) {
                say("comes twice");
            }
            if !family.help.ends_with('.') || family.help.len() < 5 {
                say("its help is no sentence with a full stop");
            }
            family.lint_name(&mut say);
            family.lint_samples(&mut say);
            if family.kind == "histogram" {
                family.lint_buckets(&mut say);
            }
        }
        wrong
    }
}

impl Sample {
    fn parse(line: &str) -> Option<Self> {
        let name_end = line.find(['{', ' '])?;
        let (name, mut rest) = line.split_at(name_end);
        let mut labels = BTreeMap::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside;
            while !rest.starts_with('}') {
                let (label, value) = rest.split_once("=\"")?;
                let end = end_of_value(value)?;
                let before = labels.insert(label.to_owned(), value[..end].to_owned());
                rest = value[end + 1..].trim_start_matches(',');
                before.is_none().then_some(())?;
            }
            rest = &rest[1..];
        }
        let value = rest.strip_prefix(' ')?.parse().ok()?;
        Some(Self { name: name.to_owned(), labels, value })
    }
}

/// Returns the place of the quote that ends a value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

impl Family {
    fn lint_name(&self, say: &mut impl FnMut(&str)) {
        let snake = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
                && !name.contains("__")
        };
        if !snake(&self.name) || !self.labels.iter().all(|label| snake(label)) {
            say("its name or a label is not in snake case");
        }
        let words: Vec<&str> = self.name.split('_').collect();
        if words.iter().any(|word| UNITS_REFUSED.contains(word)) {
            say("its unit is abbreviated or no base unit");
        }
        if words.iter().any(|word| KINDS.contains(word)) {
            say("its name has its kind");
        }
        if !["stele", "process"].contains(&words[0]) {
            say("its name has no prefix");
        }
        if words.iter().any(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
            say("a number in its name is a label");
        }
        let is_total = self.name.ends_with("_total");
        if is_total != (self.kind == "counter") {
            say("counters, and only they, end in _total");
        }
        if ["_bucket", "_count", "_sum", "_info_total"].iter().any(|end| self.name.ends_with(end)) {
            say("its name ends as a series of a histogram");
        }
        let bare = self.name.trim_end_matches("_total");
        for unit in ["seconds", "bytes"] {
            let inside = words.contains(&unit) && !bare.ends_with(unit) && !bare.contains("_per_");
            if inside {
                say("its unit is not the last word");
            }
        }
        if self.labels.contains("quantile") || self.kind != "histogram" && self.has_label("le") {
            say("a label is reserved");
        }
    }

    fn has_label(&self, label: &str) -> bool {
        self.samples.iter().any(|sample| sample.labels.contains_key(label))
    }

    fn lint_samples(&self, say: &mut impl FnMut(&str)) {
        let mut seen = BTreeSet::new();
        for sample in &self.samples {
            let labels: Vec<_> = sample.labels.iter().collect();
            if !seen.insert((&sample.name, labels)) {
                say("a series comes twice");
            }
            let may_fall = self.kind == "gauge";
            if !sample.value.is_finite() || !may_fall && sample.value < 0.0 {
                say("a value is no number, or negative");
            }
        }
        if self.samples.is_empty() {
            say("has no sample");
        }
    }

    /// Buckets are cumulative, begin at 10 µs or a single thing, and end with the count.
    fn lint_buckets(&self, say: &mut impl FnMut(&str)) {
        let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            let end = labels.remove("le").and_then(|end| end.parse().ok());
            let key: Labels = labels.into_iter().collect();
            if let Some(end) = end {
                series.entry(key).or_default().push((end, sample.value));
            } else if sample.name.ends_with("_count") {
                counts.insert(key, sample.value);
            }
        }
        for (key, buckets) in &series {
            if !buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1) {
                say("its buckets do not ascend");
            }
            let last = buckets.last().copied().unwrap_or_default();
            if last.0 != f64::INFINITY || counts.get(key) != Some(&last.1) {
                say("its last bucket is not the count");
            }
            if self.name.ends_with("_seconds") {
                let longest = buckets.iter().rev().nth(1).map_or(0.0, |bucket| bucket.0);
                if buckets[0].0 != 1e-5 || longest < 30.0 {
                    say("its buckets do not reach from 10 microseconds to 30 seconds");
                }
            }
        }
        if series.len() != counts.len() || series.is_empty() {
            say("its buckets and counts are not of the same series");
        }
    }
}

#[test]
fn each_rule_finds_its_breach() {
    let scrape = |text: &str| Scrape::parse(text).map(|scrape| scrape.lint());
    let family = |name: &str, kind: &str, lines: &str| {
        scrape(&format!("# HELP {name} Some help.\n# TYPE {name} {kind}\n{lines}\n"))
    };
    let good = "stele_x_seconds_bucket{le=\"0.00001\"} 1\nstele_x_seconds_bucket{le=\"30\"} 1\n\
                stele_x_seconds_bucket{le=\"+Inf\"} 2\nstele_x_seconds_sum 3\nstele_x_seconds_count 2";
    assert_eq!(family("stele_x_seconds", "histogram", good), Ok(vec![]));
    assert_eq!(family("stele_x_total", "counter", "stele_x_total{a=\"\\\"}\"} 1e3"), Ok(vec![]));
    for (name, kind, lines, breach) in [
        ("stele_x", "counter", "stele_x 1", "counters"),
        ("stele_x_total", "gauge", "stele_x_total 1", "counters"),
        ("stele_x_ms", "gauge", "stele_x_ms 1", "base unit"),
        ("stele_x_bytes_max", "gauge", "stele_x_bytes_max 1", "last word"),
        ("stele_X", "gauge", "stele_X 1", "snake"),
        ("other_x", "gauge", "other_x 1", "prefix"),
        ("stele_gauge_x", "gauge", "stele_gauge_x 1", "its kind"),
        ("stele_x_count", "gauge", "stele_x_count 1", "series of a histogram"),
        ("stele_x", "gauge", "stele_x{le=\"1\"} 1", "reserved"),
        ("stele_x", "gauge", "stele_x 1\nstele_x 2", "twice"),
        ("stele_x", "gauge", "stele_x NaN", "no number"),
        ("stele_x_total", "counter", "stele_x_total -1", "negative"),
        ("stele_x_seconds", "histogram", &good.replace("0.00001", "0.0001"), "10 microseconds"),
        ("stele_x_seconds", "histogram", &good.replace("count 2", "count 3"), "not the count"),
        ("stele_x_seconds", "histogram", &good.replace("} 2", "} 0"), "ascend"),
    ] {
        let found = family(name, kind, lines).unwrap();
        assert!(found.iter().any(|found| found.contains(breach)), "{name}: {found:?}");
    }
    assert!(
        scrape("# HELP stele_x No stop\n# TYPE stele_x gauge\nstele_x 1\n").unwrap().len() == 1
    );
    for malformed in ["stele_x 1\n", "# HELP stele_x X.\nstele_x 1\n", "", "# TYPE stele_x gauge\n"]
    {
        assert!(scrape(malformed).is_err(), "{malformed}");
    }
    assert!(family("stele_x", "gauge", "stele_y 1").is_err(), "a sample of another family");
    assert!(family("stele_x", "gauge", "stele_x{a=\"1} 1").is_err(), "a label without its end");
}
