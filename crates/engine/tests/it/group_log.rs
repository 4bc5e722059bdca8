//! The group log beside an engine, as `check` and `dump` see it.

use base::env::SimEnv;
use engine::check::check_dir;
use engine::dump::{DumpOptions, dump_file};
use engine::group_log::{EntryId, GROUP_LOG_DIR, GroupId, GroupLog, GroupWrite, HardState};
use engine::{Engine, Options};
use std::path::Path;

#[test]
fn check_and_dump_know_the_group_log() {
    let machine = SimEnv::new(1);
    let (env, dir) = (machine.env(), Path::new("/data"));
    Engine::open_with_env(machine.env(), dir, Options::default()).unwrap().close().unwrap();
    let check = || check_dir(&env, dir, &mut |_| ()).unwrap();
    assert_eq!((check().is_clean(), check().group_log_records), (true, 0));
    let log = GroupLog::open(&env, &dir.join(GROUP_LOG_DIR), &Options::default()).unwrap();
    let (hard, start) = (HardState::default(), EntryId::default());
    let create = |group| GroupWrite::Create {
        group: GroupId(group),
        replica: 5,
        hard,
        descriptor: b"rows",
        start,
    };
    log.append(&[create(1), create(2)]).unwrap();
    log.close().unwrap();
    let report = check();
    assert_eq!((report.is_clean(), report.group_log_records), (true, 2), "{report:?}");
    let path = dir.join("group-log/0000000001.glog");
    let mut text = Vec::new();
    dump_file(&*env.fs, &path, &DumpOptions::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("group 2, whole state of replica 5"), "{text}");
    let at = machine.fs.read(&path).unwrap().windows(4).position(|bytes| bytes == b"rows").unwrap();
    machine.fs.flip(&path, at, 1).unwrap();
    let report = check();
    let [finding] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!((&finding.file, report.group_log_records), (&path, 1));
    assert!(finding.advice.contains("other nodes"), "{finding:?}");
    // The engine itself does not read the group log.
    Engine::open_with_env(machine.env(), dir, Options::default()).unwrap();
}
