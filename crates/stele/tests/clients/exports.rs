//! Files of `stele export` in programs of others, and files of others in `stele import`: fastavro and
//! Python's own modules for Avro, CSV and JSON lines, PyArrow for Parquet, Hadoop and HBase for SequenceFiles.

use crate::server::{stderr, stele};
use crate::setup;
use std::path::Path;
use std::process::{Command, Stdio};

/// A table as JSON lines in Base64: bytes of all kinds, several families and versions.
fn table() -> String {
    let mut text = concat!(
        r#"{"key_base64":"AP8=","cells":[{"family":"f","qualifier_base64":"","timestamp":3000,"#,
        r#""value_base64":"XA=="}]}"#,
        "\n",
        r#"{"key_base64":"YQ==","cells":[{"family":"f","qualifier_base64":"cQ==","timestamp":2000,"#,
        r#""value_base64":"bmV3"},{"family":"f","qualifier_base64":"cQ==","timestamp":1000,"#,
        r#""value_base64":"b2xk"},{"family":"g.2","qualifier_base64":"/iwi","timestamp":0,"#,
        r#""value_base64":""}]}"#,
        "\n",
    )
    .to_owned();
    // So many that a file has several blocks, and several sync markers.
    for row in 1000..9000 {
        let key = format!("YWJj{row}");
        text += &format!(
            r#"{{"key_base64":"{key}","cells":[{{"family":"f","qualifier_base64":"w6k=","#
        );
        text += r#""timestamp":1764000000000000,"value_base64":"bGluZQosXCI="}]}"#;
        text += "\n";
    }
    text
}

/// Runs the binary in `dir`, and returns what it wrote to standard output.
fn run(dir: &Path, args: &[&str]) -> String {
    let mut command = stele();
    let output = command.args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes the table `t` in the data directory `data` of `dir`.
fn make_table(dir: &Path) {
    std::fs::write(dir.join("t.jsonl"), table()).unwrap();
    import(dir, "t.jsonl", "t", &["--format", "export-jsonl"]);
}

fn import(dir: &Path, file: &str, table: &str, args: &[&str]) {
    let to = ["import", file, "--table", table, "--create-table", "--data-dir", "data"];
    run(dir, &[&to, args].concat());
}

/// Exports the table `t` to the directory `name`, and returns the path of its only part.
fn export(dir: &Path, name: &str, args: &[&str]) -> String {
    run(dir, &[&["export", name, "--table", "t", "--data-dir", "data"], args].concat());
    let entries = std::fs::read_dir(dir.join(name)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut parts = names.filter(|name| name.starts_with("part-"));
    let part = parts.next().unwrap();
    assert_eq!(parts.next(), None);
    format!("{name}/{part}")
}

/// Returns what another program prints, and fails with its words.
fn others(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Fails with the first line that differs.
#[track_caller]
fn assert_is_table(rows: &str, what: &str) {
    let table = table();
    let differs = rows.lines().zip(table.lines()).find(|(row, want)| row != want);
    assert_eq!(differs, None, "{what}");
    assert_eq!(rows.len(), table.len(), "{what}");
}

/// Fails unless `table` has the rows of the table `t`.
#[track_caller]
fn assert_imported(dir: &Path, table: &str) {
    let args = ["--data-dir", "data", "--format", "jsonl", "--encoding", "base64"];
    let rows = run(dir, &[&["export", "-", "--table", table], &args[..]].concat());
    assert_is_table(&rows, table);
}

#[test]
fn programs_of_python_read_exports_and_write_imports() {
    let Some(python) = setup::python_for_exports() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make_table(dir);
    let script = |name: &str| {
        let mut command = Command::new(&python);
        command.arg(setup::sources().join("exports").join(name)).current_dir(dir);
        command
    };
    for (name, args) in [
        ("snappy", &["--format", "avro"][..]),
        ("zstd", &["--format", "avro", "--compression", "zstd"]),
        ("none", &["--format", "avro", "--compression", "none"]),
        ("parquet", &["--format", "parquet"]),
        ("parquet-zstd", &["--format", "parquet", "--compression", "zstd"]),
        ("csv", &["--format", "csv"]),
        ("jsonl", &["--format", "jsonl"]),
    ] {
        let part = export(dir, name, args);
        assert_is_table(&others(script("read_rows.py").arg(part)), name);
    }
    for codec in ["none", "snappy", "gzip", "zstd"] {
        let (file, table) = (format!("{codec}.parquet"), format!("parquet-{codec}"));
        others(script("rewrite_parquet.py").args(["parquet/part-00000.parquet", &file, codec]));
        import(dir, &file, &table, &[]);
        assert_imported(dir, &table);
    }
    for codec in ["null", "deflate", "snappy", "zstandard"] {
        let file = format!("{codec}.avro");
        others(script("rewrite_avro.py").args(["snappy/part-00000.avro", &file, codec]));
        import(dir, &file, codec, &[]);
        assert_imported(dir, codec);
    }
}

#[test]
fn hadoop_and_hbase_read_exports_and_write_imports() {
    let Some((suite, classes)) = setup::java() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make_table(dir);
    let java = |args: &[&str]| {
        let mut command = Command::new("java");
        command.args(["-cp", &classes, "clients.ExportFiles"]).args(args).current_dir(&suite);
        others(&mut command)
    };
    let path = |file: &str| dir.join(file).to_str().unwrap().to_owned();
    let part = path(&export(dir, "out", &["--format", "sequence-file"]));
    assert_is_table(&java(&["print", &part]), "sequence-file");
    for compression in ["NONE", "RECORD", "BLOCK"] {
        let file = format!("{compression}.seq");
        java(&["rewrite", &part, &path(&file), compression]);
        import(dir, &file, compression, &[]);
        assert_imported(dir, compression);
    }
}
