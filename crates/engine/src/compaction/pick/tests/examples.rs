//! Picks by example: `testdata/pick/*`. `REWRITE=1` writes the results anew.
//!
//! A line is a run, newest first: its level, and its files as `number:first-last:entries`; then
//! `@n` says the file's largest sequence number and `drops=a-c` what its range tombstones span.
//! Arguments: `l0`, `sst` and `l1` are the limits (runs, and entries of a file and of level 1),
//! `garbage` the files with their shares (`file-share`), `settled` and `reads` as in `Signals`,
//! `busy` the files of a plan that runs.

use super::*;

#[test]
fn picks_are_what_their_examples_show() {
    datadriven::walk("testdata/pick", |file| {
        file.run(|case| {
            assert_eq!(case.directive, "pick");
            let number = |arg: Option<u64>, default| arg.unwrap_or(default);
            let l0 = number(case.try_take_arg("l0").unwrap(), 4);
            let (sst, l1) = (case.try_take_arg("sst").unwrap(), case.try_take_arg("l1").unwrap());
            let options = options(l0 as usize, number(sst, 8), number(l1, 64));
            let share = |text: String| {
                let (file, share) = text.split_once('-').unwrap();
                (FileNumber(file.parse().unwrap()), share.parse().unwrap())
            };
            let garbage: Vec<String> = case.try_take_args("garbage").unwrap().unwrap_or_default();
            let signals = Signals {
                garbage: garbage.into_iter().map(share).collect(),
                settled: SequenceNumber(number(case.try_take_arg("settled").unwrap(), u64::MAX)),
                quiet_reads: case.try_take_arg("reads").unwrap(),
            };
            let busy: Vec<u64> = case.try_take_args("busy").unwrap().unwrap_or_default();
            let busy = Busy::with(busy.into_iter().map(FileNumber));
            let version = parse_version(&case.input);
            match pick(&version, &options, &busy, &signals) {
                None => "nothing\n".to_owned(),
                Some((plan, reason)) => show_plan(&plan, reason),
            }
        });
    });
}

fn show_plan(plan: &Plan, reason: Reason) -> String {
    let (work, to) = (plan.work, plan.destination);
    let mut text = format!("{reason:?}: {work:?} to {to:?}:");
    for run in &plan.inputs {
        text += &format!(" L{}", run.level);
        run.ssts.iter().for_each(|sst| text += &format!(" {}", sst.number.0));
    }
    text + "\n"
}

fn parse_version(text: &str) -> TreeVersion {
    let mut version = TreeVersion::empty(TreeOptions::default());
    let mut id = 100;
    for line in text.lines() {
        let (level, files) = line.split_once(' ').unwrap();
        id -= 1;
        let level: usize = level.trim_start_matches('L').parse().unwrap();
        let id = RunId(if level == LEVELS - 1 { LAST_RUN.0 } else { id });
        let mut ssts: Vec<SstMeta> = Vec::new();
        for word in files.split_whitespace() {
            if let Some(sequence) = word.strip_prefix('@') {
                ssts.last_mut().unwrap().sequence_max = SequenceNumber(sequence.parse().unwrap());
            } else if let Some(range) = word.strip_prefix("drops=") {
                let (start, end) = range.split_once('-').unwrap();
                let sst = ssts.last_mut().unwrap();
                sst.range_tombstones = 1;
                let end = Some(end.as_bytes().to_vec()).filter(|end| !end.is_empty());
                sst.dropped = Some(RowRange { start: start.into(), end });
            } else {
                ssts.push(parse_file(word));
            }
        }
        let ssts = ssts.into_iter().map(Arc::new).collect();
        version.levels[level].push(Run { id, ssts });
    }
    version
}

fn parse_file(word: &str) -> SstMeta {
    let mut parts = word.split(':');
    let mut part = || parts.next().unwrap();
    let (number, rows, entries) = (part(), part(), part());
    let (first, last) = rows.split_once('-').unwrap();
    let entries = entries.parse().unwrap();
    let file = file(number.parse().unwrap(), first.as_bytes(), last.as_bytes(), 1);
    SstMeta { entries, bytes: entries * ENTRY_BYTES, ..file }
}
