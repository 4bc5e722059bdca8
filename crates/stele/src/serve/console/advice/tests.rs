use super::super::samples::{EngineSample, OperationSample};
use super::*;
use crate::serve::console::readings::Operation;

fn told(phase: Phase, engine: &EngineReading, recent: &[Sample]) -> Vec<(Severity, String)> {
    let recent: Vec<_> = recent.iter().cloned().map(Arc::new).collect();
    let situation = Situation { phase, engine: Some(engine), recent: &recent };
    advise(&situation).into_iter().map(|advice| (advice.severity, advice.title)).collect()
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
    let situation = Situation { phase: Phase::Serving, engine: Some(&engine), recent: &recent };
    let advice = advise(&situation);
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
fn a_cache_that_is_too_small_is_told_by_reads_of_disk() {
    let small = |reads| {
        let engine = EngineSample { disk_reads_per_get: Some(reads), ..EngineSample::default() };
        told(Phase::Serving, &EngineReading::default(), &[sample(engine)]).len()
    };
    assert_eq!((small(2.0), small(0.9)), (1, 0));
}
