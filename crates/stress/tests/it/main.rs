//! `stele-stress` passes on a sound engine, and fails on one that loses a write.
//!
//! `STELE_STRESS_MINUTES` sets how long the run takes (default 0.3), `STELE_STRESS_SEED` its seed
//! (default: one drawn from the clock).

#![allow(clippy::unwrap_used, reason = "a failure is the test's verdict")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const WRITERS: u64 = 4;

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the binary to its end and returns what it printed.
fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stele-stress"));
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_store_survives_stress() {
    let minutes = std::env::var("STELE_STRESS_MINUTES").unwrap_or("0.3".to_owned());
    let seed = std::env::var("STELE_STRESS_SEED").ok();
    // Directories of tests are often in memory, and too small for hours.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = dir.path().join("stress");
    let store = store.to_str().unwrap();
    let mut args = vec!["--minutes", &minutes, "--data-dir", store];
    args.extend(["--writers", "4", "--readers", "3", "--rows", "4000"]);
    args.extend(seed.as_ref().into_iter().flat_map(|seed| ["--seed", seed]));
    let output = run(&args);
    let said = stdout(&output);
    if !output.status.success() {
        let kept = dir.keep();
        panic!("{said}\n{}\nkept: {}", stderr(&output), kept.display());
    }
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("stress passed: seed "), "{said}");
    assert!(said.contains("latency of writes"), "{said}");
    assert!(!Path::new(store).exists(), "the directory of a run that passed is removed");
    // The test harness hides what a passing test prints by macro.
    std::io::stderr().write_all(format!("{last}\n").as_bytes()).unwrap();
}

/// Runs one worker, whose standard input ends at once: it does each thing once and ends.
fn work(dir: &Path, cycle: &str) -> Output {
    run(&["--data-dir", dir.to_str().unwrap(), "--worker-cycle", cycle])
}

#[test]
fn a_lost_write_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("{{\"seed\":1,\"writers\":{WRITERS},\"readers\":1,\"rows\":300}}");
    std::fs::write(dir.path().join("run.json"), settings).unwrap();
    for cycle in ["1", "2"] {
        let worked = work(dir.path(), cycle);
        assert!(worked.status.success(), "{}{}", stdout(&worked), stderr(&worked));
    }
    // The book says that one batch more of writer 1 was acknowledged.
    let book = dir.path().join("progress");
    let mut progress = std::fs::read(&book).unwrap();
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let next = number(&progress[16..24]).max(number(&progress[24..32])) + 1;
    progress[16..24].copy_from_slice(&next.to_le_bytes());
    let began = progress.clone();
    progress[24..32].copy_from_slice(&next.to_le_bytes());
    std::fs::write(&book, &progress).unwrap();
    let worked = work(dir.path(), "3");
    let said = stdout(&worked);
    assert_eq!(worked.status.code(), Some(1), "{said}");
    assert!(said.contains("Wrong") && said.contains("of writer 1"), "{said}");
    // One that was only begun may be missing.
    std::fs::write(&book, &began).unwrap();
    let worked = work(dir.path(), "3");
    assert!(worked.status.success(), "{}{}", stdout(&worked), stderr(&worked));
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine"), b"precious").unwrap();
    let output = run(&["--data-dir", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not empty"), "{}", stderr(&output));
    assert_eq!(std::fs::read(dir.path().join("mine")).unwrap(), b"precious");
}
