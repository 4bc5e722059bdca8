//! Places of keys and columns in the rows of a table, computed once for each version of the table.

use super::table::{ColumnNumber, IndexPart, Table};
use crate::format::key::{KeyCodec, KeyPart};
use crate::types::DataType;

/// The part of a table's tree that has its rows.
pub const ROWS_PART: u16 = 1;
/// The part of a columnar table's tree that has the descriptors of its segments.
pub(crate) const SEGMENTS_PART: u16 = 2;
/// The part of a columnar table's tree that tells of segments whose pages are written, and which no commit has
/// made part of the table yet.
pub(crate) const LOADS_PART: u16 = 3;

/// Places and codecs that reads and writes of rows need, without a look-up.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// Places of the key's values in a row.
    pub key_places: Vec<usize>,
    /// Codec of the keys of rows.
    pub key: KeyCodec,
    /// For each column: its number, the place, and if the row cell has its value.
    pub stored: Vec<StoredColumn>,
    /// For each index, in the order of the table's: places of its values in a row, and their codec.
    pub indexes: Vec<IndexLayout>,
}

/// A column as the cell of a row has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredColumn {
    /// Number of the column in its table.
    pub number: ColumnNumber,
    /// Place of the value in the row.
    pub place: usize,
    /// False if the key alone has the value.
    pub in_cell: bool,
}

/// Places of the values of an index.
#[derive(Debug, Clone, Default)]
pub struct IndexLayout {
    /// Places of the values in a row.
    pub places: Vec<usize>,
    /// Codec of the values in the order of the index.
    pub codec: KeyCodec,
}

impl Layout {
    /// Returns the layout of a table. Columns that a key names exist.
    pub fn of(table: &Table) -> Self {
        let of_parts = |part: u16, parts: &[IndexPart], nullable| {
            let places: Vec<_> = parts.iter().filter_map(|part| table.place(part.column)).collect();
            let key_parts = parts.iter().zip(&places).map(|(part, place)| KeyPart {
                data_type: table.columns[*place].data_type.clone(),
                descending: part.descending,
                nulls_first: part.nulls_first,
                nullable,
            });
            IndexLayout { codec: KeyCodec::new(part, key_parts.collect()), places }
        };
        let key = match &table.primary_key {
            Some(key) => of_parts(ROWS_PART, &key.parts, false),
            None => {
                let row_id = KeyPart::ascending(DataType::Int8);
                let codec = KeyCodec::new(ROWS_PART, vec![row_id]);
                IndexLayout { places: vec![table.columns.len()], codec }
            }
        };
        let in_key = |place: usize| {
            let at = key.places.iter().position(|of_key| *of_key == place);
            at.is_some_and(|at| key.codec.parts()[at].is_lossless())
        };
        let columns = table.columns.iter().enumerate();
        let mut stored: Vec<_> = columns
            .map(|(place, column)| StoredColumn {
                number: column.number,
                place,
                in_cell: !in_key(place),
            })
            .collect();
        stored.sort_unstable_by_key(|column| column.number);
        let of_index = |index: &super::Index| of_parts(index.part, &index.parts, true);
        let indexes = table.indexes.iter().map(of_index).collect();
        Self { key_places: key.places, key: key.codec, stored, indexes }
    }
}
