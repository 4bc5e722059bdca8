//! The page of all metrics, `docs/metrics.md`, is what a server tells.

use super::super::connections::Front;
use super::*;
use base::env::SystemClock;
use bigtable::NoPlace;
use engine::{Engine, Options};
use prometheus::proto::{MetricFamily, MetricType};
use std::path::Path;
use std::task::Poll;
use table::{CreateTable, Local, RowMutation, RowMutations, Store, TableName};

const HEAD: &str = "\
# Every metric of the server

This page is generated from the metrics of a server: a test writes it. `/metrics` of the HTTP address
serves them as Prometheus text. [Running Stele](operations.md#watching) says which of them to watch.

- A **counter** only grows, and begins at 0 with the server. A **gauge** rises and falls. A
  **histogram** has the series `_bucket`, `_sum` and `_count`; its buckets are cumulative.
- The unit stands at the end of the name, before the `_total` of a counter: seconds or bytes. A name
  without a unit counts things.
- A family whose events have not happened since the start may be missing.

| metric | type | labels | meaning |
|---|---|---|---|
";

/// Returns a state in which everything has happened once that makes a family appear.
fn state(dir: &Path) -> State {
    let state = State::new(None);
    let engine = Engine::open(dir, Options::default()).unwrap();
    let store = Local::open(engine.clone(), Arc::new(SystemClock)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(read_a_table(&store));
    state.set_engine(engine);
    state.set_store(Arc::new(store));
    drop(state.requests().start("/google.bigtable.v2.Bigtable/MutateRow"));
    let security = state.security();
    security.reloaded("tls", "done");
    security.handshakes(Front::Http).done();
    security.refused_connection(NoPlace::InAll(1));
    drop(security.opened(Front::Http));
    state
}

async fn read_a_table(store: &Local) {
    let name = TableName::new("projects/p/instances/i/tables/t").unwrap();
    let create = CreateTable {
        name: name.clone(),
        families: Vec::new(),
        splits: vec!["m".into()],
        deletion_protection: false,
        granularity: Default::default(),
        row_key_schema: None,
    };
    store.create_table(create).await.unwrap();
    store.sample_row_keys(&name).await.unwrap();
    let row = RowMutations { row: "row".into(), mutations: vec![RowMutation::DeleteFromRow] };
    store.mutate_row(&name, row).await.unwrap();
}

/// Returns the names of the labels that samples of the family have.
fn labels(family: &MetricFamily) -> Vec<String> {
    let of = |metric: &prometheus::proto::Metric| {
        metric.get_label().iter().map(|pair| pair.name().to_owned()).collect::<Vec<_>>()
    };
    let names = of(&family.get_metric()[0]);
    for metric in family.get_metric() {
        assert_eq!(of(metric), names, "{} has the same labels in each sample", family.name());
    }
    assert!(names.is_sorted(), "{}: labels come in order", family.name());
    names
}

fn page(families: &Families) -> String {
    let mut page = String::from(HEAD);
    for family in families.iter() {
        let kind = match family.get_field_type() {
            MetricType::COUNTER => "counter",
            MetricType::GAUGE => "gauge",
            MetricType::HISTOGRAM => "histogram",
            other => panic!("{} is a {other:?}", family.name()),
        };
        let labels: Vec<_> = labels(family).iter().map(|label| format!("`{label}`")).collect();
        let (name, labels, help) = (family.name(), labels.join(", "), family.help());
        page += &format!("| `{name}` | {kind} | {labels} | {help} |\n");
    }
    page
}

#[test]
fn the_page_lists_what_a_server_tells() {
    let dir = tempfile::tempdir().unwrap();
    let mut families = families(&state(dir.path()));
    // A node of a cluster tells these too.
    let links = vec![(::cluster::group::NodeId(2), true, 0)];
    let readings = ::cluster::member::NodeReadings { links, ..Default::default() };
    cluster::add(&readings, &mut families);
    #[cfg(feature = "sql")]
    {
        let counts = ::sql::Counts::default();
        counts.took("select", None, std::time::Duration::from_micros(1));
        super::sql::add(&counts, [0, 0], &mut families);
    }
    let page = page(&families);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    // A server without SQL tells less than the page has.
    if std::env::var_os("REWRITE").is_some() && cfg!(feature = "sql") {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    let is_told = |line: &&str| cfg!(feature = "sql") || !line.starts_with("| `stele_sql_");
    let written: String = written.split_inclusive('\n').filter(is_told).collect();
    assert!(written == page, "docs/metrics.md is not what the server tells: run with REWRITE=1");
}

#[tokio::test]
async fn a_scrape_that_finds_no_place_is_told_when_to_come_again() {
    let state = Arc::new(State::new(None));
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let of_first = Arc::clone(&state);
    let gather = move || {
        begun.send(()).unwrap();
        waits.recv()
    };
    let first = tokio::spawn(async move { of_first.scrapes().run(gather).await });
    has_begun.await.unwrap();
    let mut waiting = Vec::new();
    let refused = loop {
        let mut scrape = Box::pin(answer(extract::State(Arc::clone(&state))));
        match futures::poll!(scrape.as_mut()) {
            Poll::Ready(refused) => break refused,
            Poll::Pending => waiting.push(scrape),
        }
    };
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    go_on.send(()).unwrap();
    assert!(first.await.unwrap().is_ok());
    for scrape in waiting {
        assert_eq!(scrape.await.status(), StatusCode::OK);
    }
}
