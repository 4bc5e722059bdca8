//! A check finds damage to any byte that counts, names the file, and goes on to the next damage.

use crate::byte_flips::{DIR, Store, places, points, store};
use engine::check::{Report, check_dir};
use engine::{Engine, Error};
use sim::image::Image;
use sim::machine::Machine;
use sim::oracle::content;
use sim::points::try_all;
use sim::sample;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn check(image: &Image, seed: u64) -> (Machine, Result<Report, Error>) {
    let machine = Machine::new(seed);
    let fs = machine.env().fs;
    image.write(&*fs, Path::new(DIR)).unwrap();
    let before = Image::read(&*fs, Path::new(DIR)).unwrap();
    let checked = check_dir(&machine.env(), Path::new(DIR), &mut |_| ());
    assert!(before == Image::read(&*fs, Path::new(DIR)).unwrap(), "a check changed something");
    (machine, checked)
}

fn files(report: &Report) -> BTreeSet<PathBuf> {
    report.findings.iter().map(|finding| finding.file.clone()).collect()
}

/// Damage that a check passes over changes nothing that the store holds.
fn passes_over(store: &Store, machine: &Machine) -> Result<(), String> {
    let engine = Engine::open_with_env(machine.env(), Path::new(DIR), sample::options());
    let engine = engine.map_err(|error| format!("clean, and yet: {error}"))?;
    let found = content(&engine).map_err(|error| format!("clean, and yet: {error}"))?;
    if found == store.content { Ok(()) } else { Err("clean, with other content".to_owned()) }
}

#[test]
fn a_check_finds_what_makes_a_difference() {
    let store = store();
    let places = places(&store.image, 61);
    try_all("a_check_finds_what_makes_a_difference", &points(&places), |point| {
        let (name, offset) = &places[point.at as usize];
        let mut image = store.image.clone();
        image.files.get_mut(name).expect("it is one of its files")[*offset] ^= 0x10;
        let at = |what: String| format!("{} at {offset}: {what}", name.display());
        match check(&image, point.at) {
            (_, Err(Error::Unusable { what, .. })) if what.contains("newer") => Ok(()),
            (_, Err(error)) => Err(at(error.to_string())),
            (machine, Ok(report)) if report.is_clean() => passes_over(&store, &machine).map_err(at),
            (_, Ok(report)) => {
                let damaged = Path::new(DIR).join(name);
                let named = files(&report).contains(&damaged);
                // Without a manifest, what it knows of the log is not known.
                if named { Ok(()) } else { Err(at(format!("{:?}", report.findings))) }
            }
        }
    });
}

#[test]
fn a_check_reports_every_damaged_file() {
    let store = store();
    let mut image = store.image.clone();
    let mut damaged = BTreeSet::new();
    for (name, content) in &mut image.files {
        let kind = name.extension().and_then(|kind| kind.to_str());
        // The first record of a segment and the first block of a file.
        if matches!(kind, Some("sst" | "log")) {
            content[60] ^= 1;
            damaged.insert(Path::new(DIR).join(name));
        }
    }
    let lost = image.files.keys().find(|name| name.extension() == Some("sst".as_ref()));
    let lost = lost.unwrap().clone();
    image.files.remove(&lost);
    let (_, report) = check(&image, 1);
    let report = report.unwrap();
    assert_eq!(files(&report), damaged);
    let missing = report.findings.iter().find(|finding| finding.file.ends_with(&lost)).unwrap();
    assert!(missing.what.contains("missing"), "{missing}");
    assert!(report.findings.iter().all(|finding| finding.advice.contains("stele repair")));
}
