//! Rows with many columns and versions, and scans of parts of them: readings of weather stations.
//!
//! ```sh
//! cargo run -p engine --example wide_rows [DIR]
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use engine::{
    Column, Columns, Direction, Engine, FamilyId, Options, QualifierRange, Result, RowRange,
    RowSelection, ScanRequest, Timestamp, TimestampRange, TreeId, TreeOptions, WriteBatch,
};
use std::path::Path;

const STATIONS: TreeId = TreeId(1);
/// What a station measures: one column for each quantity, one version for each hour.
const MEASURED: FamilyId = FamilyId(1);
/// What is known of a station.
const ABOUT: FamilyId = FamilyId(2);
const HOUR: i64 = 3_600_000_000;

/// Writes a day of readings of a hundred stations and looks at them in several ways.
pub(crate) fn run(dir: &Path) -> Result<()> {
    let engine = Engine::open(dir, Options::default())?;
    let stations = engine.tree_or_create(STATIONS, TreeOptions::default())?;
    for station in 0..100u32 {
        stations.write(&day_of(station))?;
    }

    // The newest reading of each quantity of one station.
    let columns = Columns::ranges(vec![QualifierRange::family(MEASURED)]);
    let newest = RowSelection { versions_max: Some(1), ..RowSelection::of(&columns) };
    let lent = stations.read_row_with(&key_of(42), &newest, None, |cell| {
        println!("{} = {}", cell.qualifier.escape_ascii(), cell.value.escape_ascii());
    })?;
    assert_eq!(lent, 3);

    // The temperatures of one region between noon and six, the last station first.
    let request = ScanRequest {
        rows: RowRange::prefix(b"north/"),
        direction: Direction::Reverse,
        columns: Columns::ranges(vec![QualifierRange::column(MEASURED, b"temperature")]),
        timestamps: TimestampRange { start: Timestamp(12 * HOUR), end: Some(Timestamp(18 * HOUR)) },
        versions_max: None,
    };
    let mut scan = stations.scan(&request, None)?;
    let (mut rows, mut cells) = (0, 0);
    while scan.next_row()?.is_some() {
        rows += 1;
        while scan.next_cell()?.is_some() {
            cells += 1;
        }
    }
    println!("{cells} temperatures of {rows} stations");
    assert_eq!((rows, cells), (50, 50 * 6));
    Ok(())
}

fn key_of(station: u32) -> Vec<u8> {
    let region = if station.is_multiple_of(2) { "north" } else { "south" };
    format!("{region}/{station:04}").into_bytes()
}

fn day_of(station: u32) -> WriteBatch {
    let row = key_of(station);
    let mut batch = WriteBatch::new();
    batch.put(&row, Column::of(ABOUT, b"name"), Timestamp(0), b"Station");
    for hour in 0..24 {
        for quantity in ["humidity", "pressure", "temperature"] {
            let column = Column::of(MEASURED, quantity.as_bytes());
            let value = (i64::from(station) + hour).to_string();
            batch.put(&row, column, Timestamp(hour * HOUR), value.as_bytes());
        }
    }
    batch
}

#[allow(dead_code, reason = "the test calls `run` in a directory of its own")]
fn main() -> Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "example-wide-rows".into())))
}
