//! PostgreSQL's COPY in bulk: text, CSV and binary to Arrow columns, and back.
//!
//! A [`Splitter`] cuts the messages of a client into [`Block`]s of whole records. A [`Parser`] turns blocks
//! into columns; blocks of one stream can go to parsers of several threads. [`Layout`] makes record batches
//! of them, with columns that the statement does not name. A [`Writer`] is the way back. `docs/copy.md`
//! says what is refused, and how fast it is.
//!
//! ```
//! use copy::{Column, ColumnType, Format, IsoForms, Limits, Options, Parser, Splitter};
//! use std::sync::Arc;
//!
//! let options = Options::of_format(Format::Csv);
//! let columns = vec![Column::new("id", ColumnType::Int4), Column::new("name", ColumnType::Text)];
//! let mut splitter = Splitter::new(&options, columns.len(), Limits::default())?;
//! let mut parser = Parser::new(&options, columns, Arc::new(IsoForms))?;
//! for mut piece in [&b"1,one\n2,\"tw"[..], b"o\"\n"] {
//!     while let Some(mut block) = splitter.push(&mut piece)? {
//!         parser.parse(&mut block, 65_536)?;
//!     }
//! }
//! while let Some(mut block) = splitter.finish()? {
//!     parser.parse(&mut block, 65_536)?;
//! }
//! let columns = parser.take()?;
//! assert_eq!(columns[0].len(), 2);
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
