use super::*;
use engine::Options;
use prometheus::proto::MetricType;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use table::mutate::WriteTime;
use table::schema::FamilySpec;
use table::{CreateTable, RowMutation, RowMutations, Shelves, Store, Timestamp};

/// More than all records of a schema here.
const VALUE_BYTES: usize = 100_000;

/// A store, and the values of the last scrape.
struct Scraped {
    engine: Engine,
    store: Local,
    shares: Arc<Shares>,
    counters: BTreeMap<String, f64>,
}

impl Scraped {
    fn open(dir: &Path, named_max: usize) -> Self {
        let engine = Engine::open(dir, Options::default()).unwrap();
        let clock = Arc::new(base::env::SystemClock);
        let store = Local::open(engine.clone(), clock).unwrap().with_named_tables_max(named_max);
        store.keep_deleted_for(Duration::ZERO);
        let shares = Arc::default();
        Self { engine, store, shares, counters: BTreeMap::new() }
    }

    async fn create(&self, table: &str) {
        let create = CreateTable {
            name: name(table),
            families: vec![("f".into(), FamilySpec::default())],
            splits: vec!["m".into()],
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        self.store.create_table(create).await.unwrap();
    }

    async fn write(&self, table: &str) {
        let set = RowMutation::SetCell {
            family: "f".into(),
            qualifier: "q".into(),
            timestamp: WriteTime::At(Timestamp(1_000)),
            value: vec![7; VALUE_BYTES].into(),
        };
        let row = RowMutations { row: "row".into(), mutations: vec![set] };
        self.store.mutate_row(&name(table), row).await.unwrap();
    }

    /// Scrapes the tables on a blocking thread. Returns the text; no counter may have fallen.
    async fn scrape(&mut self) -> String {
        let (engine, store) = (self.engine.clone(), self.store.clone());
        let shares = Arc::clone(&self.shares);
        let gather = move || {
            let mut families = Families::default();
            add(&store, &engine, &store.named_tables(), &shares, &mut families);
            families
        };
        let families = tokio::task::spawn_blocking(gather).await.unwrap();
        for family in families.iter() {
            if family.get_field_type() != MetricType::COUNTER {
                continue;
            }
            for metric in family.get_metric() {
                let labels =
                    metric.get_label().iter().map(|l| format!("{}={}", l.name(), l.value()));
                let labels: Vec<_> = labels.collect();
                let series = format!("{}{{{}}}", family.name(), labels.join(","));
                let value = metric.get_counter().get_value();
                let before = self.counters.insert(series.clone(), value).unwrap_or(0.0);
                assert!(before <= value, "{series} fell from {before} to {value}");
            }
        }
        families.text().unwrap()
    }

    fn value(&self, name: &str, labels: &str) -> f64 {
        let series = format!("{name}{{{labels}}}");
        *self.counters.get(&series).unwrap_or_else(|| panic!("no {series}"))
    }
}

fn name(table: &str) -> TableName {
    TableName::new(format!("projects/p/instances/i/tables/{table}")).unwrap()
}

fn label(table: &str) -> String {
    format!("table={}", name(table))
}

#[tokio::test]
async fn many_tables_are_few_series() {
    let dir = tempfile::tempdir().unwrap();
    let mut scraped = Scraped::open(dir.path(), 3);
    let tables: Vec<_> = (0..150).map(|number| format!("t{number}")).collect();
    for table in &tables {
        scraped.create(table).await;
    }
    for table in tables.iter().rev() {
        scraped.write(table).await;
    }
    let text = scraped.scrape().await;
    let labels: BTreeSet<_> =
        text.lines().filter_map(|line| line.split_once("table=\"")?.1.split('"').next()).collect();
    let first_used = ["t147", "t148", "t149"].map(|table| name(table).to_string());
    let mut want: BTreeSet<&str> = first_used.iter().map(String::as_str).collect();
    want.insert(OTHER);
    assert_eq!(labels, want, "the tables that were used first");
    assert!(text.len() < 64 << 10, "{} bytes", text.len());
    let written = |table: &str| {
        scraped.value("stele_table_rows_total", &format!("direction=written,{table}"))
    };
    assert_eq!((written(&label("t149")), written("table=other")), (1.0, 147.0));
    assert!(
        text.contains("operation=\"mutate_row\",result=\"ok\",table=\"other\",le=\"+Inf\"} 147")
    );
}

#[tokio::test]
async fn a_table_that_gets_its_label_or_is_dropped_lets_no_counter_fall() {
    let dir = tempfile::tempdir().unwrap();
    let mut scraped = Scraped::open(dir.path(), 2);
    let bytes =
        |scraped: &Scraped, table: &str| scraped.value("stele_table_written_bytes_total", table);
    for table in ["a", "b", "c"] {
        scraped.create(table).await;
    }
    scraped.write("a").await;
    scraped.scrape().await;
    let first = bytes(&scraped, "table=other");
    assert!(first > 0.0, "the writes from before the label, and the schema");
    assert_eq!(bytes(&scraped, &label("a")), 0.0, "its series begins at 0");
    scraped.write("a").await;
    scraped.scrape().await;
    let of_one = bytes(&scraped, &label("a"));
    assert!(of_one > 0.0);
    assert_eq!(bytes(&scraped, "table=other"), first, "a write is told once");
    // The table goes, and its count with it; the next table gets its place.
    scraped.store.delete_table(&name("a")).await.unwrap();
    scraped.store.drop_expired().await.unwrap();
    let text = scraped.scrape().await;
    assert!(!text.contains("tables/a\""), "{text}");
    let after_drop = bytes(&scraped, "table=other");
    assert!(after_drop < first + of_one / 2.0, "what was told under its label is not told again");
    scraped.write("c").await;
    scraped.write("b").await;
    scraped.scrape().await;
    scraped.write("c").await;
    scraped.scrape().await;
    assert_eq!(bytes(&scraped, &label("c")), of_one);
}
