//! CREATE TABLE, also from a query.

use super::foreign_key::{self, Home};
use super::{new_name, sequence, storage};
use crate::statement::change::Target;
use crate::statement::names::column_type;
use crate::statement::select::Select;
use crate::statement::{Output, Run, name_of};
use datafusion::sql::sqlparser::ast::{
    self, ColumnDef, ColumnOption, CreateTable, GeneratedAs, IndexColumn, SequenceOptions,
    TableConstraint,
};
use relational::catalog::Identity;
use relational::{
    CreateTable as Definition, DataType, Error, NewColumn, NewConstraint, Oid, OnConflict, Result,
    SqlState,
};
use std::sync::Arc;

/// Rows of a query that are inserted at once.
const BATCH_ROWS: usize = 1_000;

/// A column with the sequence that it needs.
pub(super) struct Defined {
    pub(super) column: NewColumn,
    pub(super) constraints: Vec<NewConstraint>,
    /// Options of the sequence of a serial or identity column.
    pub(super) sequence: Option<Vec<SequenceOptions>>,
}

/// Carries out a CREATE TABLE.
pub(super) async fn create(
    create: &CreateTable,
    text: &Arc<str>,
    run: &mut Run<'_>,
) -> Result<Output> {
    refuse(create)?;
    let columnar = storage::is_columnar(create, run)?;
    let done = |tag: &str| Ok(Output::Done(tag.to_owned()));
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let (schema, name) = new_name(&environment, &create.name)?;
    if create.if_not_exists && catalog.find(schema, &name).is_some() {
        run.notice(format!("relation \"{name}\" already exists, skipping"));
        return done("CREATE TABLE");
    }
    if let Some(query) = &create.query {
        let names: Vec<_> = create.columns.iter().map(|column| name_of(&column.name)).collect();
        let new = New { schema, name, names, columnar };
        return create_as(new, query, text, run).await;
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    let (mut constraints, mut sequences) = (Vec::new(), Vec::new());
    let environment = run.environment(&catalog);
    let home = Home { environment: &environment, schema, name: &name };
    for column in &create.columns {
        let mut defined = define_column(column, &home)?;
        if columnar {
            storage::check_type(&defined.column.name, &defined.column.data_type)?;
        }
        if let Some(options) = defined.sequence.take() {
            sequences.push((defined.column.name.clone(), options));
        }
        columns.push(defined.column);
        constraints.append(&mut defined.constraints);
    }
    for constraint in &create.constraints {
        constraints.push(define_constraint(constraint, &home)?);
    }
    not_null_of_keys(&mut columns, &constraints);
    let names = sequence_names(run, schema, &name, &sequences);
    for ((column, _), sequence) in sequences.iter().zip(&names) {
        if let Some(column) = columns.iter_mut().find(|known| known.name == *column)
            && column.identity.is_none()
        {
            column.default = Some(sequence::next_of(run, schema, sequence));
        }
    }
    let owner = run.role()?;
    let definition = Definition { schema, name, owner, columns, constraints, columnar };
    let table = run.transaction.create_table(definition).await?;
    for ((column, options), sequence) in sequences.into_iter().zip(names) {
        sequence::create_for_column(run, table, &column, sequence, &options).await?;
    }
    check_definition(run, table)?;
    done("CREATE TABLE")
}

/// Fails if an expression of a table cannot be bound.
pub(super) fn check_definition(run: &Run<'_>, table: Oid) -> Result<()> {
    let catalog = run.transaction.catalog();
    let environment = run.environment(&catalog);
    let Some(table) = catalog.table(table) else { return Ok(()) };
    let target = Target::of(&environment, table)?;
    (0..table.columns.len()).try_for_each(|place| target.default_of(&environment, place).map(drop))
}

fn refuse(create: &CreateTable) -> Result<()> {
    let what = if create.temporary {
        "temporary tables are"
    } else if create.inherits.is_some() {
        "table inheritance is"
    } else if create.partition_by.is_some() || create.partition_of.is_some() {
        "partitioned tables are"
    } else if create.like.is_some() {
        "CREATE TABLE LIKE is"
    } else if create.or_replace || create.external || create.clone.is_some() {
        "this form of CREATE TABLE is"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("{what} not supported")))
}

fn sequence_names(
    run: &Run<'_>,
    schema: Oid,
    table: &str,
    sequences: &[(String, Vec<SequenceOptions>)],
) -> Vec<String> {
    let catalog = run.transaction.catalog();
    let mut names: Vec<String> = Vec::new();
    for (column, _) in sequences {
        let name = sequence::free_name(&catalog, schema, table, column, &names);
        names.push(name);
    }
    names
}

/// Columns of a primary key take no NULL.
fn not_null_of_keys(columns: &mut [NewColumn], constraints: &[NewConstraint]) {
    for constraint in constraints {
        let NewConstraint::PrimaryKey { columns: key, .. } = constraint else { continue };
        for column in columns.iter_mut().filter(|column| key.contains(&column.name)) {
            column.not_null = true;
        }
    }
}

/// Returns the kind of serial that a type is.
fn serial(written: &ast::DataType) -> Option<DataType> {
    match written.to_string().to_lowercase().as_str() {
        "smallserial" | "serial2" => Some(DataType::Int2),
        "serial" | "serial4" => Some(DataType::Int4),
        "bigserial" | "serial8" => Some(DataType::Int8),
        _ => None,
    }
}

/// Returns the definition of a column.
pub(super) fn define_column(column: &ColumnDef, home: &Home<'_>) -> Result<Defined> {
    let (name, table) = (name_of(&column.name), home.name);
    let serial = serial(&column.data_type);
    let (data_type, precision) = match &serial {
        Some(data_type) => (data_type.clone(), None),
        None => column_type(&column.data_type)?,
    };
    let mut new = NewColumn {
        name: name.clone(),
        data_type,
        precision,
        not_null: serial.is_some(),
        default: None,
        identity: None,
        generated: None,
    };
    let mut sequence = serial.map(|_| Vec::new());
    let mut constraints = Vec::new();
    for option in &column.options {
        let named = option.name.as_ref().map(name_of);
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => new.not_null = true,
            ColumnOption::Default(expression) => {
                if sequence.is_some() {
                    let message = format!(
                        "multiple default values specified for column \"{name}\" of table \"{table}\""
                    );
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
                new.default = Some(expression.to_string());
            }
            ColumnOption::PrimaryKey(key) => {
                check_immediate(key.characteristics)?;
                let columns = vec![name.clone()];
                constraints.push(NewConstraint::PrimaryKey { name: named, columns });
            }
            ColumnOption::Unique(key) => {
                check_immediate(key.characteristics)?;
                let columns = vec![name.clone()];
                constraints.push(NewConstraint::Unique { name: named, columns });
            }
            ColumnOption::Check(check) => {
                let named = named.or_else(|| check.name.as_ref().map(name_of));
                let named = named.or_else(|| Some(format!("{table}_{name}_check")));
                let expression = check.expr.to_string();
                constraints.push(NewConstraint::Check { name: named, expression });
            }
            ColumnOption::Generated { generated_as, sequence_options, generation_expr, .. } => {
                match generation_expr {
                    Some(expression) => new.generated = Some(expression.to_string()),
                    None => {
                        new.identity = Some(match generated_as {
                            GeneratedAs::ByDefault => Identity::ByDefault,
                            _ => Identity::Always,
                        });
                        new.not_null = true;
                        sequence = Some(sequence_options.clone().unwrap_or_default());
                    }
                }
            }
            ColumnOption::Collation(collation) => check_collation(&collation.to_string())?,
            ColumnOption::ForeignKey(key) => {
                let named = named.or_else(|| key.name.as_ref().map(name_of));
                constraints.push(foreign_key::define(home, named, key, vec![name.clone()])?);
            }
            other => {
                return Err(Error::unsupported(format!("column option {other} is not supported")));
            }
        }
    }
    Ok(Defined { column: new, constraints, sequence })
}

/// Fails unless a collation orders text by its bytes, as all text here is.
pub(super) fn check_collation(name: &str) -> Result<()> {
    let name = name.replace('"', "");
    let bare = name.rsplit('.').next().unwrap_or_default();
    if matches!(bare, "C" | "POSIX" | "ucs_basic" | "default") {
        return Ok(());
    }
    let message = format!("collation \"{bare}\" is not supported");
    Err(Error::unsupported(message).with_hint("Text is ordered by its bytes: COLLATE \"C\"."))
}

/// Fails with 0A000 for a constraint that may be checked later than at the end of its statement.
pub(super) fn check_immediate(wanted: Option<ast::ConstraintCharacteristics>) -> Result<()> {
    let is_deferred = wanted.is_some_and(|wanted| {
        wanted.deferrable == Some(true)
            || wanted.initially == Some(ast::DeferrableInitial::Deferred)
    });
    match is_deferred {
        true => Err(Error::unsupported("deferrable constraints are not supported")),
        false => Ok(()),
    }
}

/// Returns the names of the columns of a key. 42601 if one has an order: a key has none.
pub(super) fn key_columns(columns: &[IndexColumn]) -> Result<Vec<String>> {
    let name = |column: &IndexColumn| match &column.column.expr {
        _ if column.column.options != ast::OrderByOptions::default() => {
            let word = match column.column.options.asc {
                Some(true) => "ASC",
                Some(false) => "DESC",
                None => "NULLS",
            };
            let message = format!("syntax error at or near \"{word}\"");
            Err(Error::new(SqlState::SYNTAX_ERROR, message))
        }
        ast::Expr::Identifier(name) => Ok(name_of(name)),
        other => Err(Error::unsupported(format!("a key over the expression {other}"))),
    };
    columns.iter().map(name).collect()
}

/// Returns the definition of a constraint of a table.
pub(super) fn define_constraint(
    constraint: &TableConstraint,
    home: &Home<'_>,
) -> Result<NewConstraint> {
    let named = |name: &Option<ast::Ident>| name.as_ref().map(name_of);
    match constraint {
        TableConstraint::PrimaryKey(ast::PrimaryKeyConstraint { characteristics, .. })
        | TableConstraint::Unique(ast::UniqueConstraint { characteristics, .. }) => {
            check_immediate(*characteristics)?;
        }
        _ => {}
    }
    match constraint {
        TableConstraint::PrimaryKey(key) => Ok(NewConstraint::PrimaryKey {
            name: named(&key.name),
            columns: key_columns(&key.columns)?,
        }),
        TableConstraint::Unique(key) => {
            if matches!(key.nulls_distinct, ast::NullsDistinctOption::NotDistinct) {
                return Err(Error::unsupported("UNIQUE NULLS NOT DISTINCT is not supported"));
            }
            Ok(NewConstraint::Unique {
                name: named(&key.name),
                columns: key_columns(&key.columns)?,
            })
        }
        TableConstraint::Check(check) => Ok(NewConstraint::Check {
            name: named(&check.name),
            expression: check.expr.to_string(),
        }),
        TableConstraint::ForeignKey(key) => {
            let columns = key.columns.iter().map(name_of).collect();
            foreign_key::define(home, named(&key.name), key, columns)
        }
        other => Err(Error::unsupported(format!("the constraint {other} is not supported"))),
    }
}

/// A table that is made from a query.
struct New {
    schema: Oid,
    name: String,
    /// Names of the first columns, in place of the query's.
    names: Vec<String>,
    columnar: bool,
}

async fn create_as(
    New { schema, name, names, columnar }: New,
    query: &ast::Query,
    text: &Arc<str>,
    run: &mut Run<'_>,
) -> Result<Output> {
    let catalog = run.transaction.catalog();
    let select = Select::plan(&run.environment(&catalog), text, query, &mut Vec::new())?;
    let found = select.columns();
    if names.len() > found.len() {
        let message = "too many column names were specified";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    let columns = found.iter().enumerate().map(|(number, column)| NewColumn {
        name: names.get(number).cloned().unwrap_or_else(|| column.name.clone()),
        data_type: match &column.data_type {
            DataType::Unknown => DataType::Text,
            known => known.clone(),
        },
        precision: None,
        not_null: false,
        default: None,
        identity: None,
        generated: None,
    });
    let (columns, owner): (Vec<NewColumn>, _) = (columns.collect(), run.role()?);
    if columnar {
        let mut all = columns.iter();
        all.try_for_each(|column| storage::check_type(&column.name, &column.data_type))?;
    }
    let constraints = Vec::new();
    let mut rows = select.rows(run).await?;
    let definition = Definition { schema, name, owner, columns, constraints, columnar };
    let table = run.transaction.create_table(definition).await?;
    let mut count = 0;
    loop {
        let batch = rows.next(BATCH_ROWS).await?;
        if batch.is_empty() {
            return Ok(Output::Done(format!("SELECT {count}")));
        }
        count += batch.len();
        run.transaction.insert(table, batch, OnConflict::Fail).await?;
    }
}
