//! `fio`, the limit for uncached reads: random direct reads of a file as large as the data set, at
//! the same block size and depth.

use crate::engines::Result;
use crate::report::Figures;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const SECONDS: u32 = 3;

/// Block sizes at which engines read.
const BLOCKS: [(&str, u32); 2] = [("4k", 4 << 10), ("16k", 16 << 10)];

/// Measures random reads `depth` at a time of a file of `bytes` in `dir`, at each block size.
/// The error says why there are no figures; it does not end the run.
pub(crate) fn measure(dir: &Path, bytes: u64, depth: usize) -> Result<Vec<Figures>> {
    let file = dir.join("fio-data");
    let measured = BLOCKS.map(|(name, block)| one(&file, bytes, depth, name, block));
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    measured.into_iter().collect()
}

fn one(file: &Path, bytes: u64, depth: usize, name: &str, block: u32) -> Result<Figures> {
    let options = format!(
        "--rw=randread --direct=1 --ioengine=io_uring --bs={block} --iodepth={depth} \
         --size={bytes} --runtime={SECONDS} --time_based --randrepeat=0 --norandommap"
    );
    let output = Command::new("fio")
        .args(options.split_whitespace())
        .arg("--name=limit")
        .arg(format!("--filename={}", file.display()))
        .arg("--output-format=json")
        .output()
        .map_err(|error| format!("fio does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!("fio failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // Notes may stand before the object.
    let json = text.find('{').map_or("", |start| &text[start..]);
    figures(&serde_json::from_str(json)?, depth, name, options)
}

fn figures(json: &Value, depth: usize, name: &str, options: String) -> Result<Figures> {
    let number = |pointer: &str| {
        let value = json.pointer(pointer).and_then(Value::as_f64);
        value.ok_or_else(|| format!("fio's output has no {pointer}"))
    };
    let (reads, seconds) =
        (number("/jobs/0/read/total_ios")?, number("/jobs/0/read/runtime")? / 1e3);
    let cpu_share = (number("/jobs/0/usr_cpu")? + number("/jobs/0/sys_cpu")?) / 100.0;
    Ok(Figures {
        workload: format!("fio-{depth}"),
        engine: "fio".to_owned(),
        ops_per_s: number("/jobs/0/read/iops")?,
        cpu_ns_per_op: cpu_share * seconds * 1e9 / reads.max(1.0),
        p50_us: number("/jobs/0/read/clat_ns/percentile/50.000000")? / 1e3,
        p99_us: number("/jobs/0/read/clat_ns/percentile/99.000000")? / 1e3,
        disk_reads_per_op: 1.0,
        bytes_per_op: number("/jobs/0/read/io_bytes")? / reads.max(1.0),
        disk_reads_by: "fio",
        configuration: name.to_owned(),
        options,
        tried: Vec::new(),
    })
}
