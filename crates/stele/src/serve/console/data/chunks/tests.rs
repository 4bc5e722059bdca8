use super::*;

const BOUNDS: Bounds =
    Bounds { row_cells: 2, value_bytes: 4, page_bytes: 1_000, read_bytes: 10_000 };

fn chunk(key: &str, column: &str, value: &str, rest: i32, status: Option<RowStatus>) -> CellChunk {
    CellChunk {
        row_key: key.to_owned().into(),
        family_name: (!column.is_empty()).then(|| "f".to_owned()),
        qualifier: (!column.is_empty()).then(|| column.into()),
        timestamp_micros: 1_000,
        value: value.to_owned().into(),
        value_size: rest,
        row_status: status,
        ..CellChunk::default()
    }
}

fn page(bounds: Bounds, chunks: Vec<CellChunk>) -> (Vec<RowView>, bool) {
    let mut page = Page::new(bounds);
    let full = chunks.into_iter().any(|chunk| page.add(chunk));
    (page.rows(), full)
}

#[test]
fn a_value_in_parts_is_one_cell_that_is_shown_in_part() {
    let (rows, full) = page(
        BOUNDS,
        vec![
            chunk("a", "q", "123", 10, None),
            chunk("", "", "456", 10, None),
            chunk("", "", "7890", 0, Some(RowStatus::CommitRow(true))),
        ],
    );
    assert_eq!((rows.len(), rows[0].cells.len(), full), (1, 1, false));
    assert_eq!(rows[0].cells[0].value, Shown { data: "MTIzNA".into(), bytes: 10 });
    assert!(!rows[0].more_cells);
}

#[test]
fn a_row_with_more_cells_than_are_shown_says_so() {
    let (rows, _) = page(
        BOUNDS,
        vec![
            chunk("a", "1", "x", 0, None),
            chunk("a", "2", "x", 0, None),
            chunk("a", "3", "x", 0, Some(RowStatus::CommitRow(true))),
            chunk("b", "1", "x", 0, Some(RowStatus::CommitRow(true))),
        ],
    );
    let told: Vec<_> = rows.iter().map(|row| (row.cells.len(), row.more_cells)).collect();
    assert_eq!(told, [(2, true), (1, false)]);
}

#[test]
fn a_row_that_is_reset_comes_again() {
    let (rows, _) = page(
        BOUNDS,
        vec![
            chunk("a", "1", "old", 9, None),
            chunk("", "", "", 0, Some(RowStatus::ResetRow(true))),
            chunk("a", "1", "new", 0, Some(RowStatus::CommitRow(true))),
        ],
    );
    assert_eq!((rows.len(), rows[0].cells.len()), (1, 1));
    assert_eq!(rows[0].cells[0].value.data, "bmV3");
}

#[test]
fn a_page_ends_at_its_bytes_within_a_row_and_has_that_row() {
    let bounds = Bounds { read_bytes: 5, ..BOUNDS };
    let (rows, full) =
        page(bounds, vec![chunk("a", "1", "12345", 100, None), chunk("", "", "67890", 100, None)]);
    assert!(full && rows.len() == 1 && rows[0].more_cells);
    let value = &rows[0].cells[0].value;
    assert_eq!((value.data.as_str(), value.bytes), ("MTIzNA", 100), "the cell is not passed over");
    let bounds = Bounds { page_bytes: 3, ..BOUNDS };
    let last = || Some(RowStatus::CommitRow(true));
    let (rows, full) =
        page(bounds, vec![chunk("ab", "1", "x", 0, last()), chunk("c", "1", "x", 0, last())]);
    assert!(full && rows.len() == 1, "{rows:?}");
}
