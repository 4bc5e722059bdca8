//! Exporting a table from a server and from a directory, and importing what was exported.

use crate::import::{Setting, succeeded};
use crate::server::{stderr, stele};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A table as JSON lines: bytes of all kinds, several families and versions, an empty value.
const TABLE: &str = concat!(
    r#"{"key":"\\x00\\xff","cells":[{"family":"f","qualifier":"","timestamp":3000,"value":"\\\\"}]}"#,
    "\n",
    r#"{"key":"a","cells":[{"family":"f","qualifier":"q","timestamp":2000,"value":"new"},"#,
    r#"{"family":"f","qualifier":"q","timestamp":1000,"value":"old"},"#,
    r#"{"family":"g.2","qualifier":"\\xfe,\"","timestamp":0,"value":""}]}"#,
    "\n",
    r#"{"key":"ab","cells":[{"family":"f","qualifier":"é","timestamp":9000,"value":"line\\n"}]}"#,
    "\n",
    r#"{"key":"b","cells":[{"family":"g.2","qualifier":"x","timestamp":5000,"value":"v"}]}"#,
    "\n",
);

/// A server with [`TABLE`] as table `t`.
fn setting() -> Setting {
    let setting = Setting::new();
    let file = setting.file("t.jsonl", TABLE);
    let said = succeeded(&setting.import(&file, &["--format", "export-jsonl"]));
    assert!(said.starts_with("imported 4 rows with 6 cells"), "{said}");
    setting
}

/// Exports `table` of the server into the directory `name`, or to standard output.
fn export(setting: &Setting, table: &str, name: &str, args: &[&str]) -> Output {
    let mut command = stele();
    command.args(["export", name, "--table", table]).args(args);
    if !args.contains(&"--data-dir") {
        command.args(["--endpoint", &setting.server.bigtable().to_string()]);
    }
    command.current_dir(setting.root.path()).stdin(Stdio::null()).output().unwrap()
}

/// Returns `table` as JSON lines.
fn text(setting: &Setting, table: &str, args: &[&str]) -> String {
    succeeded(&export(setting, table, "-", &[&["--format", "jsonl"], args].concat()))
}

fn import(setting: &Setting, input: &str, table: &str, args: &[&str]) -> Output {
    let mut command = stele();
    command.args(["import", input, "--table", table, "--create-table"]).args(args);
    command.args(["--endpoint", &setting.server.bigtable().to_string()]);
    command.current_dir(setting.root.path()).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_format_gives_the_same_table_back() {
    let setting = setting();
    assert_eq!(text(&setting, "t", &[]), TABLE);
    for (at, args) in [
        &["--format", "avro"][..],
        &["--format", "parquet"],
        &["--format", "parquet", "--compression", "zstd", "--part-rows", "1"],
        &["--format", "avro", "--compression", "zstd", "--part-rows", "1"],
        &["--format", "sequence-file"],
        &["--format", "csv"],
        &["--format", "csv", "--encoding", "base64"],
        &["--format", "jsonl", "--encoding", "base64", "--part-rows", "3"],
    ]
    .into_iter()
    .enumerate()
    {
        let (dir, table) = (format!("out{at}"), format!("t{at}"));
        let said = succeeded(&export(&setting, "t", &dir, args));
        assert!(said.starts_with("exported 4 rows with 6 cells"), "{said}");
        let said = succeeded(&import(&setting, &dir, &table, &[]));
        assert!(said.starts_with("imported 4 rows with 6 cells"), "{args:?}: {said}");
        assert_eq!(text(&setting, &table, &[]), TABLE, "{args:?}");
        let left = setting.root.path().join(format!("{dir}.import"));
        assert!(!left.exists(), "{} stays behind", left.display());
    }
}

#[test]
fn a_part_of_a_table_is_exported() {
    let setting = setting();
    let lines: Vec<&str> = TABLE.lines().collect();
    for (args, want) in [
        (&["--prefix", "a"][..], &lines[1..3]),
        (&["--prefix", "\\x00"], &lines[..1]),
        (&["--start", "ab"], &lines[2..]),
        (&["--start", "a", "--end", "ab"], &lines[1..2]),
        (&["--prefix", "zz"], &[]),
    ] {
        assert_eq!(text(&setting, "t", args).lines().collect::<Vec<_>>(), want, "{args:?}");
    }
    for (args, want) in [
        (&["--family", "g.2"][..], 2),
        (&["--family", "f", "--family", "g.2"], 6),
        (&["--family", "g-2"], 0),
        (&["--qualifier", "q|x"], 3),
        (&["--qualifier", "\\xfe\\C*"], 1),
        (&["--since", "2000"], 4),
        (&["--since", "1000", "--until", "3000"], 2),
        (&["--versions", "1"], 5),
        (&["--versions", "1", "--until", "2000", "--family", "f"], 1),
    ] {
        let cells = text(&setting, "t", args).matches("\"timestamp\"").count();
        assert_eq!(cells, want, "{args:?}");
    }
}

#[test]
fn a_closed_directory_and_its_server_give_the_same() {
    let mut setting = setting();
    let dirs = ["served", "closed"];
    let rows = ["--part-rows", "2", "--versions", "1", "--family", "f", "--format", "csv"];
    succeeded(&export(&setting, "t", dirs[0], &rows));
    assert!(setting.server.terminate().success());
    succeeded(&export(&setting, "t", dirs[1], &[&rows[..], &["--data-dir", "data"]].concat()));
    for part in ["part-00000.csv", "part-00001.csv"] {
        let parts =
            dirs.map(|dir| std::fs::read(setting.root.path().join(dir).join(part)).unwrap());
        assert_eq!(parts[0], parts[1], "{part}");
    }
}

#[test]
fn a_wide_row_is_exported_in_several_records() {
    let setting = Setting::new();
    let cells = 120_000;
    let mut csv = "key,family,qualifier,timestamp,value\n".to_owned();
    (0..cells).for_each(|at| csv += &format!("wide,f,{at:06},1000,v{at}\n"));
    csv += "zz,f,q,1000,v\n";
    let file = setting.file("wide.txt", &csv);
    let said = succeeded(&setting.import(&file, &["--format", "export-csv"]));
    assert!(said.starts_with("imported 2 rows with 120,001 cells"), "{said}");
    let said = succeeded(&export(&setting, "t", "out", &["--format", "avro"]));
    assert!(said.starts_with("exported 2 rows with 120,001 cells"), "{said}");
    succeeded(&import(&setting, "out", "t2", &[]));
    assert_eq!(succeeded(&export(&setting, "t2", "-", &["--format", "csv"])), csv);
}

fn part(setting: &Setting, name: &str) -> PathBuf {
    setting.root.path().join("out").join(name)
}

#[track_caller]
fn refused(output: &Output, says: &str) {
    assert!(!output.status.success(), "{output:?}");
    assert!(stderr(output).contains(says), "{}", stderr(output));
}

#[test]
fn damaged_exports_are_refused_with_the_file() {
    let setting = setting();
    succeeded(&export(&setting, "t", "out", &["--part-rows", "2"]));
    let again = || import(&setting, "out", "t2", &[]);
    let path = part(&setting, "part-00001.avro");
    let whole = std::fs::read(&path).unwrap();

    std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    refused(&again(), "part-00001.avro is damaged: it has");
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &flipped).unwrap();
    refused(&again(), "part-00001.avro is damaged: its checksum");
    // A file that no export vouches for is refused by its own marks.
    let alone = import(&setting, "out/part-00001.avro", "t3", &[]);
    refused(&alone, "part-00001.avro: offset");

    // A missing part is named.
    std::fs::write(&path, &whole).unwrap();
    std::fs::remove_file(part(&setting, "part-00000.avro")).unwrap();
    refused(&again(), "part-00000.avro");
}

#[test]
fn an_import_of_an_export_resumes() {
    let setting = setting();
    succeeded(&export(&setting, "t", "out", &["--part-rows", "1"]));
    let last = part(&setting, "part-00003.avro");
    let whole = std::fs::read(&last).unwrap();
    std::fs::write(&last, "").unwrap();
    refused(&import(&setting, "out", "t2", &[]), "rerun the command to resume");
    std::fs::write(&last, whole).unwrap();
    let said = succeeded(&import(&setting, "out", "t2", &[]));
    assert!(said.starts_with("imported 4 rows with 6 cells"), "{said}");
    assert_eq!(text(&setting, "t2", &[]), TABLE);
}

#[test]
fn rows_that_a_table_refuses_are_kept_whole_and_can_be_imported_once_they_are_mended() {
    let setting = setting();
    let long = "k".repeat(5000);
    let late =
        r#"{"key":"early","cells":[{"family":"f","qualifier":"q","timestamp":-1000,"value":"v"}]}"#;
    let bad = format!("{}{late}\n", TABLE.replace("\"ab\"", &format!("\"{long}\"")));
    setting.file("bad.jsonl", &bad);
    let format = ["--format", "export-jsonl"];
    let failed = import(&setting, "bad.jsonl", "t2", &format);
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    refused(&failed, "2 records of the export were rejected, and all others are imported");
    let lines: Vec<&str> = TABLE.lines().collect();
    let there = text(&setting, "t2", &[]);
    assert_eq!(there.lines().collect::<Vec<_>>(), [lines[0], lines[1], lines[3]]);

    let rejects = setting.root.path().join("bad.jsonl.rejects");
    let kept = std::fs::read_to_string(&rejects).unwrap();
    assert!(kept.contains("4096") && kept.contains("negative timestamp"), "{kept}");
    let same = import(
        &setting,
        "bad.jsonl.rejects",
        "t2",
        &[&format[..], &["--rejects", "bad.jsonl.rejects"]].concat(),
    );
    refused(&same, "is the input");
    std::fs::write(&rejects, kept.replace(&long, "ab").replace("-1000", "1000")).unwrap();
    let said = succeeded(&import(&setting, "bad.jsonl.rejects", "t2", &format));
    assert!(said.starts_with("imported 2 rows with 2 cells"), "{said}");
    assert_eq!(text_of_rows(&setting, "t2", "ab"), lines[2]);
    assert_eq!(text_of_rows(&setting, "t2", "early"), late.replace("-1000", "1000"));

    let allowed = [&format[..], &["--max-rejects", "2"]].concat();
    let said = succeeded(&import(&setting, "bad.jsonl", "t3", &allowed));
    assert!(said.contains("2 records rejected"), "{said}");
    let stopped =
        import(&setting, "bad.jsonl", "t4", &[&format[..], &["--max-rejects", "1"]].concat());
    refused(&stopped, "more than 1 records were rejected");
    // Nothing more is rejected on a second try, which is no success still.
    let again =
        import(&setting, "bad.jsonl", "t4", &[&format[..], &["--max-rejects", "1"]].concat());
    refused(&again, "more than 1 records were rejected");
}

#[test]
fn rows_before_the_damage_are_imported() {
    let setting = setting();
    let format = ["--format", "export-jsonl"];
    let last = r#"{"key":"c","cells":[{"family":"f","qualifier":"","timestamp":0,"value":""}]}"#;
    setting.file("torn.jsonl", &format!("{TABLE}{}", &last[..30]));
    refused(&import(&setting, "torn.jsonl", "t2", &format), "torn.jsonl: line 5");
    assert_eq!(text(&setting, "t2", &[]), TABLE);
    setting.file("torn.jsonl", &format!("{TABLE}{last}\n"));
    let resumed = import(&setting, "torn.jsonl", "t2", &format);
    assert!(stderr(&resumed).contains("4 rows"), "{}", stderr(&resumed));
    assert!(succeeded(&resumed).starts_with("imported 5 rows with 7 cells"));
    assert_eq!(text(&setting, "t2", &[]), format!("{TABLE}{last}\n"));
}

#[test]
fn no_file_of_an_import_takes_the_place_of_its_input() {
    let setting = setting();
    let format = ["--format", "export-jsonl"];
    let file = setting.root.path().join("t.jsonl");
    succeeded(&export(&setting, "t", "out", &[]));
    let part = part(&setting, "part-00000.avro");
    let before = std::fs::read(&part).unwrap();
    std::os::unix::fs::symlink("t.jsonl", setting.root.path().join("link")).unwrap();
    std::fs::hard_link(&file, setting.root.path().join("twin")).unwrap();
    for (input, args, says) in [
        ("t.jsonl", &["--checkpoint", "t.jsonl", "--restart"][..], "--checkpoint t.jsonl is the"),
        ("t.jsonl", &["--checkpoint", "./link", "--restart"], "--checkpoint ./link is the input"),
        ("t.jsonl", &["--rejects", "out/../t.jsonl"], "--rejects out/../t.jsonl is the input"),
        ("t.jsonl", &["--rejects", "twin"], "--rejects twin is the input"),
        (
            "t.jsonl",
            &["--rejects", "a", "--checkpoint", "a"],
            "--checkpoint and --rejects are both a",
        ),
        ("out", &["--rejects", "out/part-00000.avro"], "is in the directory of the input"),
        ("out", &["--checkpoint", "out/new"], "--checkpoint out/new is in the directory"),
    ] {
        let format = if input == "out" { &[][..] } else { &format };
        let output = import(&setting, input, "t2", &[args, format].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        refused(&output, says);
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), TABLE);
    assert_eq!(std::fs::read(part).unwrap(), before);
}

#[test]
fn a_family_that_no_table_can_have_rejects_its_row_alone() {
    let setting = setting();
    let bad = TABLE.replacen("g.2", "g/2", 1);
    setting.file("bad.jsonl", &bad);
    let failed = import(&setting, "bad.jsonl", "t2", &["--format", "export-jsonl"]);
    refused(&failed, "1 records of the export were rejected, and all others are imported");
    let lines: Vec<&str> = TABLE.lines().collect();
    let there = text(&setting, "t2", &[]);
    assert_eq!(there.lines().collect::<Vec<_>>(), [lines[0], lines[2], lines[3]]);
    let kept = setting.root.path().join("bad.jsonl.rejects");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(kept.contains("record 2: ") && kept.contains("must match"), "{kept}");
}

#[test]
fn a_stream_of_a_failed_export_is_no_file() {
    let setting = setting();
    for (format, name) in [
        ("avro", "avro"),
        ("parquet", "parquet"),
        ("sequence-file", "sequence-file"),
        ("csv", "export-csv"),
        ("jsonl", "export-jsonl"),
    ] {
        let failed = export(&setting, "absent", "-", &["--format", format]);
        assert!(!failed.status.success());
        std::fs::write(setting.root.path().join(name), &failed.stdout).unwrap();
        refused(
            &import(&setting, name, "t2", &["--format", name]),
            &format!("could not read {name}"),
        );
    }
}

/// Returns the row of `table` whose key starts with `prefix`.
fn text_of_rows(setting: &Setting, table: &str, prefix: &str) -> String {
    text(setting, table, &["--prefix", prefix]).trim_end().to_owned()
}

#[test]
fn an_export_of_another_server_is_another_export() {
    let setting = setting();
    succeeded(&export(&setting, "t", "out", &[]));
    let manifest = setting.root.path().join("out/export.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let address = setting.server.bigtable().to_string();
    assert!(text.contains(&address), "{text}");
    std::fs::write(&manifest, text.replace(&address, "elsewhere:1")).unwrap();
    refused(&export(&setting, "t", "out", &[]), "belongs to another export");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let setting = setting();
    let refuses = |output: &Output, says: &str| {
        assert_eq!(output.status.code(), Some(2), "{}", stderr(output));
        assert!(stderr(output).contains(says), "{}", stderr(output));
    };
    for (args, says) in [
        (&["--start", "b", "--end", "a"][..], "--end must come after --start"),
        (&["--since", "2000", "--until", "2000"], "--until must come after --since"),
        (&["--since", "1"], "no multiple of 1000"),
        (&["--prefix", "\\q"], "a backslash that starts none"),
        (&["--family", "a|b"], "a family name has"),
        (&["--part-size", "1"], "--part-size"),
        (&["--data-dir", "nowhere"], "no data directory"),
    ] {
        refuses(&export(&setting, "t", "out", args), says);
    }
    succeeded(&export(&setting, "t", "out", &[]));
    refuses(&import(&setting, "out", "t2", &["--key", "k"]), "--key is for records");
    refuses(&import(&setting, "data", "t2", &[]), "is no export");
    refuses(&import(&setting, "t.jsonl", "t2", &[]), "--key FIELD is missing");
    let missing = export(&setting, "missing", "out2", &[]);
    refused(&missing, "missing");
    refused(&export(&setting, "t", "out", &[]), "complete export");
    succeeded(&export(&setting, "t", "out", &["--restart", "--format", "csv"]));
    assert!(!Path::new(&part(&setting, "part-00000.avro")).exists());
}
