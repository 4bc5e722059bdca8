//! Reports as a whole: merged ones equal the whole run, files come back, hostile ones do no harm.

use super::*;
use crate::measure::Coarse;
use std::time::Duration;

/// Latencies of one process of a run in microseconds.
fn micros(part: u64) -> impl Iterator<Item = u64> {
    (0..1000u64).map(move |number| 50 + (number * 7919 + part * 104_729) % 20_000)
}

/// Returns the report of a process with these latencies.
fn report(part: Part, latencies: impl Iterator<Item = u64>) -> Report {
    let mut tally = Tally::new();
    latencies.for_each(|micros| tally.latency.record(Duration::from_micros(micros)));
    tally.rows = tally.latency.count();
    tally.errors.insert("UNAVAILABLE", 2 * tally.latency.count() / 1000);
    let point = Point {
        seconds: 10.0,
        operations: BTreeMap::from([("read".to_owned(), Coarse::of(&tally.latency))]),
        ..Point::default()
    };
    let machine = Machine { system: "linux".into(), processor: None, cores: 2, memory_bytes: None };
    let settings = [("threads", "4".to_owned()), ("process", part.to_string())];
    let mut timeline = Timeline::new(10.0);
    timeline.push(point);
    Report {
        schema: SCHEMA,
        program: "stele load 0".into(),
        title: "Load test".into(),
        workload: "key-value".into(),
        data: "d".into(),
        seed: 1,
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        started: "2026-11-24T10:00:00Z".into(),
        started_ms: 1_000_000,
        warm_up_seconds: 0.0,
        seconds: 10.0,
        ended: "time".into(),
        fill: Some(Fill { rows: tally.rows, seconds: 1.0 }),
        operations: BTreeMap::from([("read".to_owned(), Results::of(tally, 10.0))]),
        open_loop: None,
        messages: BTreeMap::from([("UNAVAILABLE".to_owned(), "UNAVAILABLE: gone".to_owned())]),
        verification: Verification { values: 10, ..Verification::default() },
        processes: vec![Process {
            part,
            machine,
            cpu: CpuUse::default(),
            cpu_share: 0.5,
            limit: "none".into(),
            statement: "The client was not the bottleneck.".into(),
        }],
        timeline,
    }
}

fn part(index: u64, of: u64) -> Part {
    Part { index, of }
}

#[test]
fn a_merged_report_equals_the_whole_run() {
    let parts = (0..3).map(|index| report(part(index, 3), micros(index)));
    let merged = Report::merge(parts.rev().collect()).unwrap();
    let whole = report(part(0, 1), (0..3).flat_map(micros));
    assert_eq!(merged.operations, whole.operations);
    assert_eq!(merged.timeline, whole.timeline);
    assert_eq!((merged.seconds, merged.failures(), merged.successes()), (10.0, 6, 3000));
    assert_eq!(merged.fill.as_ref().map(|fill| fill.rows), Some(3000));
    assert_eq!(merged.verification.values, 30);
    assert_eq!(merged.settings["process"], "3 of 3");
    let order: Vec<u64> = merged.processes.iter().map(|process| process.part.index).collect();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn reports_of_different_runs_are_refused() {
    let [one, two] = [0, 1].map(|index| report(part(index, 2), micros(index)));
    let refused = |change: &dyn Fn(&mut Report)| {
        let mut other = two.clone();
        change(&mut other);
        Report::merge(vec![one.clone(), other]).unwrap_err().to_string()
    };
    for (reason, change) in [
        ("workload", &(|other: &mut Report| other.workload = "scans".into()) as &dyn Fn(&mut _)),
        ("data set", &|other: &mut Report| other.data = "e".into()),
        ("seed", &|other: &mut Report| other.seed = 2),
        ("--threads", &|other: &mut Report| drop(other.settings.remove("threads"))),
        ("--more", &|other: &mut Report| {
            other.settings.insert("more".into(), "1".into());
        }),
        ("process 0/2", &|other: &mut Report| other.processes[0].part.index = 0),
        ("process 1/3", &|other: &mut Report| other.processes[0].part.of = 3),
    ] {
        let error = refused(change);
        assert!(error.contains(reason), "{reason}: {error}");
    }
    assert!(Report::merge(vec![]).is_err());
    let alone = report(part(0, 1), micros(0));
    assert_eq!(Report::merge(vec![alone.clone()]).unwrap().operations, alone.operations);
}

#[test]
fn a_run_without_all_of_its_processes_is_refused() {
    for (parts, missing) in [(vec![0], "1/3"), (vec![0, 2], "1/3"), (vec![2, 1], "0/3")] {
        let reports = parts.iter().map(|index| report(part(*index, 3), micros(*index)));
        let error = Report::merge(reports.collect()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {missing} is missing")), "{parts:?}: {error}");
    }
    let hostile = report(part(0, u64::MAX), micros(0));
    assert!(Report::merge(vec![hostile]).is_err());
}

#[test]
fn processes_that_did_not_run_together_are_refused_and_rates_are_those_of_the_whole_time() {
    let reports = |later_ms: i64, seconds: f64| {
        let mut other = report(part(1, 2), micros(1));
        other.started_ms = other.started_ms.saturating_add(later_ms);
        other.seconds = seconds;
        vec![report(part(0, 2), micros(0)), other]
    };
    for (later_ms, seconds) in [
        (10_000, 10.0),
        (5001, 10.0),
        (-5001, 10.0),
        (9000, 3.0),
        (i64::MAX, 10.0),
        (0, f64::NAN),
        (0, f64::INFINITY),
        (0, 0.0),
        (0, -1.0),
    ] {
        let error = Report::merge(reports(later_ms, seconds)).unwrap_err().to_string();
        assert!(error.contains("different times"), "{later_ms} {seconds}: {error}");
    }
    let merged = Report::merge(reports(2000, 10.0)).unwrap();
    assert_eq!((merged.seconds, merged.operations["read"].count), (12.0, 2000));
    assert!((merged.operations["read"].per_second - 2000.0 / 12.0).abs() < 1e-9);
    // A process that had fewer operations to do ended earlier.
    assert_eq!(Report::merge(reports(1000, 2.0)).unwrap().seconds, 10.0);
}

#[test]
fn operations_without_an_answer_are_in_the_percentiles_and_no_successes() {
    let mut tally = Tally::new();
    tally.latency.record_many(Duration::from_millis(1), 90);
    tally.unanswered.record_many(Duration::from_secs(10), 10);
    let results = Results::of(tally, 10.0);
    assert_eq!((results.count, results.unanswered, results.per_second), (90, 10, 9.0));
    assert!(results.latency_us.p50 < 1100 && results.latency_us.p99 > 9_900_000);
    let mut one = report(part(0, 2), micros(0));
    one.operations.insert("read".into(), results);
    let mut two = one.clone();
    two.processes[0].part = part(1, 2);
    let merged = Report::merge(vec![one, two]).unwrap();
    let read = &merged.operations["read"];
    assert_eq!((read.count, read.unanswered, read.per_second), (180, 20, 18.0));
    assert_eq!(read.histogram.count(), 200);
    let told = "20 x read without an answer";
    assert!(merged.summary().contains(told), "{}", merged.summary());
    assert!(merged.html().contains("<td>20</td>"));
}

#[test]
fn a_report_comes_back_from_its_json() {
    let report = report(part(0, 1), micros(0));
    let json = report.json().unwrap();
    assert_eq!(Report::parse(json.as_bytes(), "r").unwrap().json().unwrap(), json);
    let newer = json.replacen("\"schema\":1", "\"schema\":2", 1);
    let error = Report::parse(newer.as_bytes(), "r.json").unwrap_err().to_string();
    assert_eq!(error, "r.json has schema 2, and this program reads schema 1");
    for broken in ["", "{}", "[]", "{\"schema\":1}", &json[..json.len() / 2]] {
        assert!(Report::parse(broken.as_bytes(), "r").is_err(), "{broken:?}");
    }
}

#[test]
fn every_text_of_a_hostile_report_is_escaped() {
    let evil = "\"><script>alert('x')</script>\u{202e}\0";
    let mut report = report(part(0, 1), micros(0));
    let tally = report.operations.remove("read").unwrap();
    report.operations.insert(
        evil.into(),
        Results {
            errors: BTreeMap::from([(evil.to_owned(), u64::MAX), ("b".to_owned(), u64::MAX)]),
            per_second: f64::INFINITY,
            ..tally
        },
    );
    let latencies = report.timeline.points[0].operations["read"].clone();
    report.timeline.points[0].operations.insert(evil.into(), latencies);
    report.timeline.points[0].errors.insert(evil.into(), u64::MAX);
    for text in [
        &mut report.title,
        &mut report.workload,
        &mut report.data,
        &mut report.program,
        &mut report.started,
        &mut report.ended,
    ] {
        *text = evil.to_owned();
    }
    report.messages.insert(evil.into(), evil.into());
    report.settings.insert(evil.into(), evil.into());
    report.settings.insert("endpoint".into(), evil.into());
    report.processes[0].statement = evil.into();
    report.processes[0].machine.system = evil.into();
    report.processes[0].machine.processor = Some(evil.into());
    let example = Example { problem: evil.into(), row: evil.into(), detail: evil.into() };
    report.verification.examples.push(example);
    report.verification.wrong.insert(evil.into(), u64::MAX);
    report.seconds = f64::NAN;
    let html = report.html();
    assert!(!html.contains("<script") && !html.contains('\0') && !html.contains('\u{202e}'));
    assert!(html.contains("&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)"));
    let summary = report.summary();
    assert!(!summary.contains('\0') && !summary.contains('\u{202e}'), "{summary}");
    report.seconds = f64::from(1 << 30);
    report.started_ms = i64::MIN;
    report.processes[0].part = part(0, 2);
    let mut two = report.clone();
    two.processes[0].part = part(1, 2);
    Report::merge(vec![report.clone(), two.clone()]).unwrap().html();
    two.started_ms = i64::MAX;
    assert!(Report::merge(vec![report, two]).is_err());
}

#[test]
fn the_summary_tells_results_and_wrong_answers() {
    let mut report = report(part(0, 1), micros(0));
    let summary = report.summary();
    assert!(summary.contains("\n  read                     1000        100 "), "{summary}");
    assert!(summary.contains("2 x read failed: UNAVAILABLE"), "{summary}");
    assert!(summary.contains("verified 10 values: all right"), "{summary}");
    report.verification.wrong.insert("stale-value".into(), 3);
    let summary = report.summary();
    assert!(summary.contains("verified 10 values: 3 WRONG ANSWERS\n    3 x stale-value"));
}
