use super::*;

fn durations(up_to: &[(f64, u64)], count: u64) -> Durations {
    Durations { up_to: up_to.to_vec(), count }
}

fn reading(requests: &[(Operation, &str, Durations)], engine: EngineReading) -> Reading {
    let requests = requests
        .iter()
        .map(|(operation, code, durations)| ((*operation, (*code).to_owned()), durations.clone()));
    let requests = requests.collect();
    Reading { requests, in_flight: Some(2.0), engine: Some(engine), ..Reading::default() }
}

fn engine(gets: u64, disk_reads: u64) -> EngineReading {
    EngineReading { gets: Some(gets), disk_reads: Some(disk_reads), ..EngineReading::default() }
}

#[test]
fn rates_and_percentiles_are_of_the_interval_only() {
    use Operation::{Reads, Writes};
    let slow = |count| durations(&[(0.01, 0), (0.1, count)], count);
    let before = reading(&[(Reads, "OK", slow(1_000))], engine(100, 50));
    let now = reading(
        &[
            (Reads, "OK", durations(&[(0.01, 90), (0.1, 1_100)], 1_100)),
            (Reads, "NOT_FOUND", durations(&[(0.01, 10), (0.1, 10)], 10)),
            (Writes, "OK", durations(&[(0.01, 0), (0.1, 0)], 5)),
        ],
        engine(300, 60),
    );
    let sample = between(7, 1, 10.0, &before, &now);
    assert_eq!((sample.number, sample.operations[&Reads].per_second), (7, 11.0));
    let p50 = sample.operations[&Reads].p50_ms.unwrap();
    assert!(p50 < 10.0, "the slow requests of before do not count: {p50}");
    assert_eq!(sample.operations[&Writes].p99_ms, Some(100.0), "the end of the last bucket");
    assert_eq!(sample.errors, BTreeMap::from([("NOT_FOUND".to_owned(), 1.0)]));
    let engine = sample.engine.unwrap();
    assert_eq!((engine.gets_per_second, engine.disk_reads_per_get), (Some(20.0), Some(0.05)));
    assert_eq!(engine.scans_per_second, None, "a metric that is missing");
}

#[test]
fn a_counter_that_goes_back_is_a_gap() {
    let requests = |count| [(Operation::Reads, "OK", durations(&[(1.0, count)], count))];
    let before = reading(&requests(10), engine(100, 50));
    let now = reading(&requests(9), engine(99, 60));
    let sample = between(0, 0, 5.0, &before, &now);
    assert!(sample.operations.is_empty() && sample.errors.is_empty());
    let engine = sample.engine.unwrap();
    assert_eq!((engine.gets_per_second, engine.disk_reads_per_get), (None, None));
}

#[test]
fn time_that_stands_still_and_nothing_asked_divide_by_nothing() {
    let same = reading(&[], engine(5, 5));
    let sample = between(0, 0, 0.0, &same, &same).engine.unwrap();
    assert_eq!((sample.gets_per_second, sample.disk_reads_per_get), (None, None));
    let sample = between(0, 0, 5.0, &same, &same).engine.unwrap();
    assert_eq!((sample.gets_per_second, sample.disk_reads_per_get), (Some(0.0), None));
    let opening = Reading { engine: None, ..same.clone() };
    assert!(between(0, 0, 5.0, &opening, &same).engine.is_none());
}

#[test]
fn percentiles_lie_within_their_buckets() {
    let some = durations(&[(1.0, 50), (2.0, 50), (4.0, 100)], 100);
    for (part, want) in [(0.25, 0.5), (0.5, 1.0), (0.75, 3.0), (1.0, 4.0)] {
        assert_eq!(quantile(&some, part), Some(want), "{part}");
    }
    assert_eq!(quantile(&durations(&[(1.0, 0)], 0), 0.5), None);
    assert_eq!(quantile(&durations(&[], 3), 0.5), None);
}

#[test]
fn old_samples_make_room_and_pages_get_the_newer_ones() {
    let samples = Samples::default();
    let none = Reading::default();
    let mut recent = Vec::new();
    for at in 0..SAMPLES_MAX as u64 + 20 {
        recent = samples.keep(|number| between(number, 5_000 * at as i64, 5.0, &none, &none));
    }
    assert_eq!(recent.len(), 12, "those of a minute");
    let late = samples.keep(|number| between(number, i64::MAX, 5.0, &none, &none));
    assert_eq!(late.len(), 1);
    let samples = Samples::default();
    for at in 0..SAMPLES_MAX as u64 + 20 {
        samples.keep(|number| between(number, 5_000 * at as i64, 5.0, &none, &none));
    }
    let (all, _) = samples.after(None);
    assert_eq!((all.len(), all[0].number), (SAMPLES_MAX, 20));
    let (newer, _) = samples.after(Some(SAMPLES_MAX as u64 + 17));
    let numbers: Vec<u64> = newer.iter().map(|sample| sample.number).collect();
    assert_eq!(numbers, [SAMPLES_MAX as u64 + 18, SAMPLES_MAX as u64 + 19]);
    assert!(samples.after(Some(u64::MAX)).0.is_empty());
}

fn taken(console: &Console) -> u64 {
    console.samples.0.lock().next
}

/// The clock is paused: it goes on when no task is left and no reading is under way.
#[tokio::test(start_paused = true)]
async fn samples_are_few_while_no_page_asks() {
    let state = crate::serve::state::State::new(None);
    let console = Arc::new(Console::new(Arc::new(state), None));
    let sampling = tokio::spawn(run(Arc::clone(&console)));
    let minutes = |minutes: u64| tokio::time::sleep(Duration::from_secs(60 * minutes));
    minutes(10).await;
    let unwatched = taken(&console);
    assert!((19..=20).contains(&unwatched), "{unwatched}");
    console.samples.after(None);
    minutes(1).await;
    let watched = taken(&console) - unwatched;
    assert!((11..=13).contains(&watched), "{watched}");
    minutes(10).await;
    let later = taken(&console) - unwatched - watched;
    assert!((19..=21).contains(&later), "{later}");
    sampling.abort();
}

#[test]
fn readings_take_a_small_part_of_the_time() {
    let (second, none) = (Duration::from_secs(1), Duration::ZERO);
    assert!(is_due(INTERVAL, none, true) && !is_due(INTERVAL, none, false));
    assert!(is_due(INTERVAL_UNWATCHED, none, false));
    assert!(!is_due(95 * second, second, true) && is_due(100 * second, second, true));
    assert!(!is_due(second, Duration::MAX, true));
}

#[test]
fn the_hottest_tables_come_first_and_idle_ones_not_at_all() {
    let table = |requests| TableReading { requests, rows_read: requests * 2, ..Default::default() };
    let tables = |many: &[(&str, u64)]| Reading {
        tables: many.iter().map(|(name, count)| ((*name).to_owned(), table(*count))).collect(),
        ..Reading::default()
    };
    let before = tables(&[("idle", 9), ("again", 50), ("warm", 5)]);
    let mut now = vec![("idle", 9), ("again", 3), ("warm", 25), ("new", 40)];
    let sample = between(0, 0, 10.0, &before, &tables(&now));
    let told: Vec<_> =
        sample.tables.iter().map(|table| (&*table.name, table.rows_read_per_second)).collect();
    assert_eq!(told, [("new", 8.0), ("warm", 4.0)], "a counter that went back is left out");
    let names: Vec<String> = (0..20).map(|at| format!("t{at:02}")).collect();
    now.extend(names.iter().map(|name| (name.as_str(), 1)));
    assert_eq!(between(0, 0, 10.0, &before, &tables(&now)).tables.len(), HOT_TABLES);
}

#[cfg(feature = "sql")]
#[test]
fn errors_of_sql_are_told_by_class_as_rates() {
    let reading = |errors, refused| {
        let errors = [("57", errors)].into();
        let sql = Some(SqlReading { errors, refused, connections: 3, ..SqlReading::default() });
        Reading { sql, ..Reading::default() }
    };
    let sample = between(0, 0, 5.0, &reading(10, 1), &reading(20, 1)).sql.unwrap();
    assert_eq!((sample.errors_per_second["57"], sample.refused_per_second), (2.0, Some(0.0)));
    assert_eq!(sample.connections, 3);
}
