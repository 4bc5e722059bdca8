//! COPY: rows from a client and to it, as text, CSV or binary.
//!
//! A COPY from a client is one statement of its transaction: all of its rows are there at its end, or none
//! after an error. Its rows are inserted in batches, so memory is bounded by a batch, and by the writes
//! of the transaction. Many rows of a columnar table become segments: `bulk/`.

mod bulk;
mod input;
mod lines;
mod options;
mod records;
mod rows;

pub(crate) use input::CopyIn;
pub(crate) use records::fuzz;

use super::bind::parse_query;
use super::change::Writer;
use super::names::name_of;
use super::select::Select;
use super::{Environment, Output, Rows, Run};
use crate::values;
use bytes::Bytes;
use datafusion::sql::sqlparser::ast::{
    CopySource, CopyTarget, Ident, ObjectName, ObjectNamePart, Statement,
};
use lines::Lines;
use options::{Format, Options};
use relational::catalog::{Privileges, Relation, Table};
use relational::{DataType, Error, Oid, Result, SqlState};
use std::sync::Arc;

/// Rows that are made into lines at once.
const BATCH_ROWS: usize = 512;

/// A planned COPY, in or out.
pub(crate) struct Copy {
    options: Options,
    way: Way,
}

enum Way {
    In(Arc<Writer>),
    Out(Box<Select>),
}

impl Copy {
    /// Returns the number of the table that rows are copied into.
    pub(crate) fn filled_table(&self) -> Option<Oid> {
        match &self.way {
            Way::In(writer) => Some(writer.target.table.oid),
            Way::Out(_) => None,
        }
    }

    /// Plans a COPY of a table or query.
    pub(crate) fn plan(
        environment: &Environment<'_>,
        text: &Arc<str>,
        statement: &Statement,
        params: &mut Vec<DataType>,
    ) -> Result<Self> {
        let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
            return Err(Error::internal("a COPY is none"));
        };
        let is_client = matches!(target, CopyTarget::Stdin | CopyTarget::Stdout);
        if !is_client {
            let error = Error::unsupported("COPY from or to a file of the server");
            return Err(error.with_hint("Use \\copy of psql, or STDIN and STDOUT."));
        }
        let options = Options::of(options, legacy_options)?;
        let way = match source {
            CopySource::Query(query) => {
                Way::Out(Box::new(Select::plan(environment, text, query, params)?))
            }
            CopySource::Table { table_name, columns } if *to => {
                let query = table_query(environment, table_name, columns)?;
                Way::Out(Box::new(Select::plan(environment, text, &query, params)?))
            }
            CopySource::Table { table_name, columns } => {
                let table = environment.table(table_name, text)?;
                environment.check(&Relation::Table(Arc::clone(&table)), Privileges::INSERT)?;
                let names: Vec<_> = columns.iter().cloned().map(into_name).collect();
                let mut given = super::change::places(&table, &names, text)?;
                if columns.is_empty() {
                    given.retain(|place| table.columns[*place].generated.is_none());
                }
                check_not_generated(&table, given.iter().copied())?;
                Way::In(Arc::new(Writer::new(environment, &table, given)?))
            }
        };
        Ok(Self { options, way })
    }

    /// Starts the COPY, and asks the client for data or sends it.
    pub(crate) async fn start(&self, run: &mut Run<'_>) -> Result<Output> {
        match &self.way {
            Way::In(writer) => {
                let copy = CopyIn::new(run, self.options.clone(), Arc::clone(writer))?;
                Ok(Output::CopyIn(Box::new(copy)))
            }
            Way::Out(select) => {
                let rows = select.rows(run).await?;
                let lines = Lines::new(self.options.clone(), select.columns());
                let is_binary = self.options.format == Format::Binary;
                let state = State::Start;
                Ok(Output::CopyOut(Box::new(CopyOut { rows, lines, is_binary, state, count: 0 })))
            }
        }
    }
}

fn into_name(ident: Ident) -> ObjectName {
    ObjectName(vec![ObjectNamePart::Identifier(ident)])
}

/// Fails with 42P10 if a column of a table is computed by the table.
fn check_not_generated(table: &Table, places: impl Iterator<Item = usize>) -> Result<()> {
    let mut columns = places.filter_map(|place| table.columns.get(place));
    match columns.find(|column| column.generated.is_some()) {
        Some(column) => {
            let message = format!("column \"{}\" is a generated column", column.name);
            let error = Error::new(SqlState::INVALID_COLUMN_REFERENCE, message);
            Err(error.with_detail("Generated columns cannot be used in COPY."))
        }
        None => Ok(()),
    }
}

/// Returns the query of the rows that a COPY of a table gives: without its generated columns.
fn table_query(
    environment: &Environment<'_>,
    name: &ObjectName,
    columns: &[Ident],
) -> Result<datafusion::sql::sqlparser::ast::Query> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut names: Vec<_> = columns.iter().map(|column| quoted(&name_of(column))).collect();
    if let Some(Relation::Table(table)) = environment.find(name)? {
        let place = |column: &Ident| table.column(&name_of(column)).map(|(place, _)| place);
        check_not_generated(&table, columns.iter().filter_map(place))?;
        if columns.is_empty() {
            let own = table.columns.iter().filter(|column| column.generated.is_none());
            names = own.map(|column| quoted(&column.name)).collect();
        }
    }
    let list = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
    let table = name;
    let parts = table.0.iter().filter_map(|part| part.as_ident());
    let table: Vec<_> = parts.map(|part| quoted(&name_of(part))).collect();
    parse_query(&format!("SELECT {list} FROM {}", table.join(".")))
}

/// Progress of a COPY to a client.
enum State {
    Start,
    Rows,
    End,
}

/// A COPY to a client.
pub(crate) struct CopyOut {
    rows: Rows,
    lines: Lines,
    is_binary: bool,
    state: State,
    count: usize,
}

impl CopyOut {
    /// Returns the format code of the data.
    pub(crate) fn format_code(&self) -> i16 {
        i16::from(self.is_binary)
    }

    /// Returns the number of columns.
    pub(crate) fn columns(&self) -> usize {
        self.rows.columns().len()
    }

    /// Returns the next pieces of data; nothing at the end.
    pub(crate) async fn next(&mut self, settings: &values::Settings) -> Result<Option<Vec<Bytes>>> {
        match self.state {
            State::Start => {
                self.state = State::Rows;
                Ok(Some(self.lines.head().into_iter().map(Bytes::from).collect()))
            }
            State::Rows => {
                let rows: Vec<relational::Row> = self.rows.next(BATCH_ROWS).await?;
                if rows.is_empty() {
                    self.state = State::End;
                    return Ok(Some(self.lines.tail().into_iter().map(Bytes::from).collect()));
                }
                self.count += rows.len();
                let lines = rows.iter().map(|row| Bytes::from(self.lines.line(row, settings)));
                Ok(Some(lines.collect()))
            }
            State::End => Ok(None),
        }
    }

    /// Returns the tag of the statement.
    pub(crate) fn tag(&self) -> String {
        format!("COPY {}", self.count)
    }
}
