use super::super::samples::{EngineSample, FilterSample, OperationSample, OwnedMemory};
use super::*;
use crate::serve::console::readings::{BLOCK_CACHE, Operation, UNTRACKED};
use std::path::Path;

#[cfg(feature = "sql")]
mod sql;

/// Returns severities and titles. Each advice names a section that there is.
fn told(phase: Phase, engine: &EngineReading, recent: &[Sample]) -> Vec<(Severity, String)> {
    let recent: Vec<_> = recent.iter().cloned().map(Arc::new).collect();
    let situation = Situation { phase, engine: Some(engine), disk: None, recent: &recent };
    checked(advise(&situation)).into_iter().map(|advice| (advice.severity, advice.title)).collect()
}

/// Checks that the guide has the section of each advice.
fn checked(advice: Vec<Advice>) -> Vec<Advice> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let guide = std::fs::read_to_string(file).unwrap();
    let headings = guide.lines().filter(|line| line.starts_with('#'));
    let sections: Vec<String> = headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-"))
        .collect();
    for one in &advice {
        let section = one.guide.strip_prefix("docs/operations.md#").unwrap();
        assert!(sections.iter().any(|known| known == section), "{one:?}");
    }
    advice
}

fn with_disk(free: u64, size: u64) -> Vec<Advice> {
    let disk = Some(Disk { free, size });
    checked(advise(&Situation { phase: Phase::Serving, engine: None, disk, recent: &[] }))
}

fn sample(engine: EngineSample) -> Sample {
    Sample { engine: Some(engine), seconds: 5.0, ..Sample::default() }
}

#[test]
fn a_server_in_order_gets_no_advice() {
    let quiet = sample(EngineSample::default());
    assert_eq!(told(Phase::Serving, &EngineReading::default(), &[quiet]), []);
    assert_eq!(told(Phase::Serving, &EngineReading::default(), &[]), []);
}

#[test]
fn the_most_urgent_comes_first() {
    let engine = EngineReading {
        trees_failing: Some(2),
        compactions_paused: Some(1),
        ..EngineReading::default()
    };
    let slowed = EngineSample { slowdowns_per_second: Some(1.0), ..EngineSample::default() };
    let told = told(Phase::Draining, &engine, &[sample(slowed)]);
    let severities: Vec<_> = told.iter().map(|(severity, _)| *severity).collect();
    use Severity::{Critical, Note, Warning};
    assert_eq!(severities, [Critical, Critical, Warning, Note], "{told:?}");
}

#[test]
fn stopped_writes_hide_the_failures_that_stopped_them() {
    let engine = EngineReading {
        trees_failing: Some(1),
        writes_stopped: Some(1),
        ..EngineReading::default()
    };
    let told = told(Phase::Serving, &engine, &[]);
    assert_eq!(told, [(Severity::Critical, "Writes are stopped".to_owned())]);
}

#[test]
fn stalls_are_told_with_the_runs_of_level_0() {
    let mut engine = EngineReading::default();
    engine.levels[0].runs = Some(17);
    let stalled = EngineSample { stalls_per_second: Some(0.2), ..EngineSample::default() };
    let recent = [Arc::new(sample(stalled))];
    let (phase, engine) = (Phase::Serving, Some(&engine));
    let advice = checked(advise(&Situation { phase, engine, disk: None, recent: &recent }));
    assert_eq!(advice[0].severity, Severity::Warning);
    assert!(advice[0].text.contains("17 sorted runs"), "{}", advice[0].text);
}

#[test]
fn errors_that_clients_cause_are_not_the_servers() {
    let of = |code: &str, rate: f64| {
        let mut sample = Sample::default();
        let reads = OperationSample { per_second: 100.0, ..OperationSample::default() };
        sample.operations.insert(Operation::Reads, reads);
        sample.errors.insert(code.to_owned(), rate);
        told(Phase::Serving, &EngineReading::default(), &[sample]).len()
    };
    for (code, rate, want) in [
        ("UNAVAILABLE", 5.0, 1),
        ("UNAVAILABLE", 0.5, 0),
        ("NOT_FOUND", 50.0, 0),
        ("CANCELLED", 50.0, 0),
        ("INTERNAL", 1.0, 1),
    ] {
        assert_eq!(of(code, rate), want, "{code} {rate}");
    }
}

#[test]
fn a_cache_that_is_too_small_is_told_by_reads_of_disk_with_what_takes_its_memory() {
    let text = |reads, untracked| {
        let memory = [(BLOCK_CACHE, 100 << 20), (UNTRACKED, untracked)];
        let engine = EngineSample {
            disk_reads_per_get: Some(reads),
            memory_max: Some(1 << 30),
            memory: memory.map(|(owner, bytes)| OwnedMemory { owner, bytes }).into(),
            ..EngineSample::default()
        };
        let recent = [Arc::new(sample(engine))];
        let (phase, engine) = (Phase::Serving, None);
        let found = checked(advise(&Situation { phase, engine, disk: None, recent: &recent }));
        found.into_iter().map(|one| one.text).collect::<Vec<_>>()
    };
    assert_eq!(text(1.4, 0), [""; 0]);
    for (reads, untracked, want) in [
        (1.5, 0, "has 100 MiB of the budget of 1.0 GiB"),
        (2.0, 600 << 20, "takes 600 MiB of the budget of 1.0 GiB"),
    ] {
        let texts = text(reads, untracked);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains(want), "{texts:?}");
    }
}

#[test]
fn a_disk_that_fills_up_is_told_before_it_is_full() {
    let of =
        |free, size| with_disk(free, size).into_iter().map(|one| one.severity).collect::<Vec<_>>();
    assert_eq!(of(4 << 30, 100 << 30), [Severity::Critical]);
    assert_eq!(of(10 << 30, 100 << 30), [Severity::Warning]);
    assert_eq!(of(15 << 30, 100 << 30), []);
    assert_eq!(of(0, 0), [], "a file system that does not tell its size");
    assert!(with_disk(10 << 30, 100 << 30)[0].text.contains("10.0 GiB of 100.0 GiB"));
}

#[test]
fn a_snapshot_is_old_after_an_hour() {
    let of = |age| {
        let engine = EngineReading { snapshot_age: Some(age), ..EngineReading::default() };
        told(Phase::Serving, &engine, &[])
    };
    assert_eq!(of(3_600), []);
    let want = "A read holds a snapshot for 2.0 hours".to_owned();
    assert_eq!(of(7_200), [(Severity::Warning, want)]);
}

#[test]
fn compactions_are_behind_if_their_debt_is_large_and_grows() {
    let of = |debts: &[u64]| {
        let debt = |debt: &u64| {
            let compaction_debt = Some(*debt << 20);
            sample(EngineSample { compaction_debt, ..EngineSample::default() })
        };
        let recent: Vec<_> = debts.iter().map(debt).collect();
        told(Phase::Serving, &EngineReading::default(), &recent).len()
    };
    for (debts, want) in [
        (&[1_000, 1_100, 1_200, 1_300][..], 1),
        (&[1_000, 1_100, 1_200][..], 0),
        (&[1_000, 1_100, 1_050, 1_300][..], 0),
        (&[1_200, 1_210, 1_220, 1_230][..], 0),
        (&[100, 200, 300, 400][..], 0),
        (&[][..], 0),
    ] {
        assert_eq!(of(debts), want, "{debts:?}");
    }
}

#[test]
fn filters_that_are_often_wrong_are_told_if_they_are_asked() {
    let of = |asked, wrong| {
        let filter = FilterSample {
            granularity: "row",
            asked_per_second: Some(asked),
            useful: Some(0.5),
            wrong: Some(wrong),
        };
        let engine = EngineSample { filters: vec![filter], ..EngineSample::default() };
        told(Phase::Serving, &EngineReading::default(), &[sample(engine)]).len()
    };
    assert_eq!((of(100.0, 0.06), of(100.0, 0.01), of(1.0, 0.5)), (1, 0, 0));
}

#[test]
fn each_phase_and_pause_has_its_section() {
    let engine = EngineReading { compactions_paused: Some(1), ..EngineReading::default() };
    assert_eq!(told(Phase::Recovering, &engine, &[]).len(), 2);
}
