//! PostgreSQL's COPY in bulk: text, CSV and binary to Arrow columns, and back.
//!
//! A [`Splitter`] cuts the messages of a client into [`Block`]s of whole records. A [`Parser`] turns blocks
//! into columns; blocks of one stream can go to parsers of several threads. [`Layout`] makes record batches
//! of them, with columns that the statement does not name. A [`Writer`] is the way back. `docs/copy.md`
//! says what is refused, and how fast it is.
//!
//! ```
//! use copy::{Block, Column, ColumnType, Format, IsoForms, Limits, Options, Parser, Splitter};
//! use std::sync::Arc;
//!
//! let options = Options::of_format(Format::Csv);
//! let columns = vec![Column::new("id", ColumnType::Int4), Column::new("name", ColumnType::Text)];
//! let mut splitter = Splitter::new(&options, columns.len(), Limits::default())?;
//! let mut parser = Parser::new(&options, columns, Arc::new(IsoForms))?;
//! let mut batches = Vec::new();
//! let mut read = |mut block: Block| {
//!     while !block.is_empty() {
//!         // Real batches have some 65,536 rows.
//!         parser.parse(&mut block, 2)?;
//!         if parser.rows() == 2 || !block.is_empty() {
//!             batches.push(parser.take()?);
//!         }
//!     }
//!     Ok::<(), copy::Error>(())
//! };
//! for mut piece in [&b"1,one\n2,\"tw"[..], b"o\"\n3,three\n"] {
//!     while let Some(block) = splitter.push(&mut piece)? {
//!         read(block)?;
//!     }
//! }
//! while let Some(block) = splitter.finish()? {
//!     read(block)?;
//! }
//! batches.push(parser.take()?);
//! let rows: Vec<usize> = batches.iter().map(|columns| columns[0].len()).collect();
//! assert_eq!(rows, [2, 1]);
//! # Ok::<(), copy::Error>(())
//! ```

mod block;
mod build;
mod column;
mod error;
mod forms;
#[doc(hidden)]
pub mod fuzz;
mod layout;
mod options;
mod parse;
mod split;
mod values;
mod write;

pub use block::{Block, LineEnd};
pub use column::{Column, ColumnType};
pub use error::{Error, Result, SHOWN_BYTES_MAX, State};
pub use forms::{Forms, IsoForms, Scalar};
pub use layout::Layout;
pub use options::{Format, Header, Options};
pub use parse::Parser;
pub use split::{Limits, Splitter};
pub use write::Writer;
