use super::*;
use engine::Options;
use std::path::Path;
use std::sync::Arc;
use table::mutate::WriteTime;
use table::schema::FamilySpec;
use table::{
    Bytes, CreateTable, Pieces, ReadRows, RowMutation, RowMutations, RowSet, Store, Timestamp,
};

const NAME: &str = "projects/p/instances/i/tables/t";

fn hot(trees: impl IntoIterator<Item = u32>) -> Vec<HotTablet> {
    let table = TableName::new("projects/p/instances/i/tables/t").unwrap();
    let hot =
        |tree| HotTablet { table: table.clone(), tree: TreeId(tree), reads: 1.0, writes: 0.0 };
    trees.into_iter().map(hot).collect()
}

fn trees(labelled: &[Labelled]) -> Vec<u32> {
    labelled.iter().map(|one| one.tree.0).collect()
}

#[test]
fn tablets_keep_their_places_until_hotter_ones_need_them() {
    let (most, mut labelled) = (TABLETS_MAX as u32, Vec::new());
    choose(&mut labelled, &hot(0..2));
    choose(&mut labelled, &hot(5..6));
    assert_eq!(trees(&labelled), [0, 1, 5], "cold ones stay while there is room");
    choose(&mut labelled, &hot(10..10 + most - 2));
    assert_eq!(labelled.len(), TABLETS_MAX);
    assert!(!trees(&labelled).contains(&0) && trees(&labelled).contains(&1));
    // Ranks change among hot tablets, and series do not.
    let before = trees(&labelled);
    choose(&mut labelled, &hot(before.iter().rev().copied()));
    assert_eq!(trees(&labelled), before);
    choose(&mut labelled, &hot(100..100 + 3 * most));
    assert_eq!(labelled.len(), TABLETS_MAX);
    assert!(trees(&labelled).iter().all(|tree| (100..100 + most).contains(tree)));
}

/// A store with one table, and the tablets that its scrapes have told.
struct Scraped {
    engine: Engine,
    store: Local,
    hot: Arc<HotTablets>,
    name: TableName,
}

/// Returns the first row of a tablet.
fn row(tablet: usize) -> Bytes {
    format!("{tablet:03}").into()
}

impl Scraped {
    /// Opens a store with a table of so many tablets.
    async fn open(dir: &Path, tablets: usize) -> Self {
        let engine = Engine::open(dir, Options::default()).unwrap();
        let store = Local::open(engine.clone(), Arc::new(base::env::SystemClock)).unwrap();
        let name = TableName::new(NAME).unwrap();
        let create = CreateTable {
            name: name.clone(),
            families: vec![("f".into(), FamilySpec::default())],
            splits: (1..tablets).map(row).collect(),
            deletion_protection: false,
            granularity: Default::default(),
            row_key_schema: None,
        };
        store.create_table(create).await.unwrap();
        Self { engine, store, hot: Arc::default(), name }
    }

    /// Returns the trees of the tablets.
    async fn trees(&self) -> Vec<TreeId> {
        let schema = self.store.get_table(&self.name).await.unwrap();
        schema.tablets.iter().map(|tablet| tablet.tree).collect()
    }

    async fn write(&self, row: impl Into<Bytes>) {
        let set = RowMutation::SetCell {
            family: "f".into(),
            qualifier: "q".into(),
            timestamp: WriteTime::At(Timestamp(1_000)),
            value: "value".into(),
        };
        let row = RowMutations { row: row.into(), mutations: vec![set] };
        self.store.mutate_row(&self.name, row).await.unwrap();
    }

    /// Returns how many of the named rows are there.
    async fn read(&self, rows: RowSet) -> usize {
        let read = ReadRows { rows, ..ReadRows::default() };
        let rows = self.store.read_rows(&self.name, read, Pieces::default()).await.unwrap();
        rows.collect_rows().await.unwrap().len()
    }

    /// Scrapes the tablets on a blocking thread.
    async fn scrape(&self) -> String {
        let (engine, store, hot) = (self.engine.clone(), self.store.clone(), Arc::clone(&self.hot));
        let gather = move || {
            let mut families = Families::default();
            add(&store, &engine, &store.named_tables(), &hot, &mut families);
            families.text().unwrap()
        };
        tokio::task::spawn_blocking(gather).await.unwrap()
    }
}

/// Returns the labels of a tablet as a scrape writes them.
fn labels(tree: TreeId) -> String {
    format!("table=\"{NAME}\",tablet=\"{}\"", tree.0)
}

/// Returns the sum of the series of `name` whose labels have all of `parts`.
fn sum(text: &str, name: &str, parts: &[&str]) -> f64 {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let found = lines.filter(|line| parts.iter().all(|part| line.contains(part)));
    found.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

#[tokio::test]
async fn requests_and_filters_of_hot_tablets_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let t = Scraped::open(dir.path(), 2).await;
    let trees = t.trees().await;
    for key in ["000", "000z", "001"] {
        t.write(key).await;
    }
    trees.iter().for_each(|tree| t.engine.tree(*tree).unwrap().flush().unwrap());
    let of = [labels(trees[0]), labels(trees[1])];
    let other = "table=\"other\",tablet=\"other\"";
    let text = t.scrape().await;
    let writes = |text: &str, tablet: &str| {
        let parts = ["operation=\"mutate_row\",result=\"ok\"", tablet];
        sum(text, "stele_tablet_request_seconds_count", &parts)
    };
    assert_eq!((writes(&text, &of[0]), writes(&text, other)), (0.0, 3.0), "{text}");
    let rows = |text: &str, direction: &str, tablet: &str| {
        let direction = format!("direction=\"{direction}\"");
        sum(text, "stele_tablet_rows_total", &[&direction, tablet])
    };
    assert_eq!(rows(&text, "written", other), 3.0);

    t.write("000").await;
    // The first is between the rows of its tablet, so that a filter is asked for it.
    assert_eq!((t.read(RowSet::key("000m")).await, t.read(RowSet::key("000")).await), (0, 1));
    assert_eq!(t.read(RowSet::all()).await, 3);
    let text = t.scrape().await;
    assert_eq!(
        (writes(&text, &of[0]), writes(&text, &of[1]), writes(&text, other)),
        (1.0, 0.0, 3.0)
    );
    let reads = |tablet: &str| {
        let parts = ["operation=\"read_rows\",result=\"ok\"", tablet];
        sum(&text, "stele_tablet_request_seconds_count", &parts)
    };
    assert_eq!((reads(&of[0]), reads(&of[1]), reads(other)), (2.0, 0.0, 1.0), "{text}");
    let read =
        [rows(&text, "read", &of[0]), rows(&text, "read", &of[1]), rows(&text, "read", other)];
    assert_eq!(read, [3.0, 1.0, 0.0], "{text}");
    let bytes =
        |tablet: &str| sum(&text, "stele_tablet_bytes_total", &["direction=\"read\"", tablet]);
    // Keys and values: the first row twice, and each of the others once.
    assert_eq!((bytes(&of[0]), bytes(&of[1])), (25.0, 8.0), "{text}");
    let checks = |tablet: &str| sum(&text, "stele_tablet_filter_checks_total", &[tablet]);
    assert!(checks(&of[0]) > 0.0 && checks(&of[1]) == 0.0, "{text}");
}

#[tokio::test]
async fn many_tablets_are_few_series() {
    let dir = tempfile::tempdir().unwrap();
    let (most, more) = (TABLETS_MAX, 11);
    let t = Scraped::open(dir.path(), most + more).await;
    for round in 0..2 {
        for tablet in 0..most + more {
            t.write(row(tablet)).await;
        }
        let text = t.scrape().await;
        let tablets: BTreeSet<_> = text
            .lines()
            .filter_map(|line| line.split_once("tablet=\"")?.1.split('"').next())
            .collect();
        assert_eq!(tablets.len(), most + 1, "{tablets:?}");
        let written = |tablet: &str| {
            sum(&text, "stele_tablet_rows_total", &["direction=\"written\"", tablet])
        };
        let (all, other) = (written(""), written("tablet=\"other\""));
        let want = [(most + more, most + more), (2 * (most + more), most + 2 * more)][round];
        assert_eq!((all, other), (want.0 as f64, want.1 as f64), "round {round}");
    }
}
