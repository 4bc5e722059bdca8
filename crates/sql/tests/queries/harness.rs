//! A database on a simulated machine with two tables, and short ways to ask it.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use base::env::sim::SimEnv;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use engine::Options;
use relational::catalog::{BOOTSTRAP_ROLE, PUBLIC_SCHEMA};
use relational::{
    CancelFlag, CreateTable, Database, DatabaseOptions, Error, Isolation, NewColumn, NewConstraint,
    OnConflict, Result, Row, SqlState, Value,
};
use sql::expression::{Acting, EvalContext, Scope, compile_text};
use sql::query::{Engine, EngineOptions, Planned, QueryContext, Run, plan};
use sql::values::{Settings, encode_text, parse_type, parse_value};
use table::Local;

/// Names and types of the columns of the tables.
const TABLES: [(&str, &str); 2] = [
    (
        "t",
        "id int4, name text, amount numeric(10;2), born date, big int8, price float8, doc jsonb, \
         at timestamptz",
    ),
    ("u", "id int4, t_id int4, note varchar(10)"),
];

/// Rows of the tables; an empty field is NULL.
const ROWS: [(&str, &str); 9] = [
    (
        "t",
        "1|ann|10.50|2000-01-31|9000000000000000000|1.5|{\"a\":1,\"b\":[1,2]}|2024-02-29 12:00:00+00",
    ),
    ("t", "2|bob|-3.25|1999-12-31|9000000000000000000|0.1|{\"a\":2}|2024-03-01 00:00:00+00"),
    ("t", "3|cid|||1|-2.25||"),
    ("t", "4||0.00|2024-02-29|-5|1e20|[]|1970-01-01 00:00:00+00"),
    ("t", "5|eve|99999999.99|1970-01-01|0|3|{\"a\":null}|2024-02-29 23:59:59.999999+00"),
    ("u", "1|1|x"),
    ("u", "2|1|y"),
    ("u", "3|2|z"),
    ("u", "4|9|"),
];

/// Runs a future on a runtime of this thread.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// One session over a database.
pub(crate) struct Session {
    _machine: SimEnv,
    database: Arc<Database>,
    engine: Arc<Engine>,
    pub(crate) cancel: CancelFlag,
}

impl Session {
    /// Returns a session over a database with the tables.
    pub(crate) async fn with_tables() -> Self {
        Self::with(EngineOptions::default()).await
    }

    /// Returns the same, with options of the engine.
    pub(crate) async fn with(options: EngineOptions) -> Self {
        let machine = SimEnv::new(1);
        let engine =
            engine::Engine::open_with_env(machine.env(), Path::new("data"), Options::default());
        let local = Local::open(engine.unwrap(), machine.env().clock).unwrap();
        let database = Database::open(&local, DatabaseOptions::default()).await.unwrap();
        let engine = Engine::new(options).unwrap();
        let session = Self { _machine: machine, database, engine, cancel: CancelFlag::default() };
        session.fill().await.unwrap();
        session
    }

    async fn fill(&self) -> Result<()> {
        let mut transaction = self.database.begin(Isolation::ReadCommitted, false);
        transaction.start_statement().await?;
        let settings = Settings::default();
        for (name, columns) in TABLES {
            let mut types = Vec::new();
            let columns = columns.split(',').map(|column| {
                let (name, data_type) = column.trim().split_once(' ').unwrap();
                let data_type = parse_type(&data_type.replace(';', ",")).unwrap();
                types.push(data_type.clone());
                NewColumn {
                    name: name.to_owned(),
                    data_type,
                    not_null: name == "id",
                    default: None,
                    identity: None,
                    precision: None,
                    generated: None,
                }
            });
            let columns = columns.collect();
            let key = NewConstraint::PrimaryKey { name: None, columns: vec!["id".to_owned()] };
            let new = CreateTable {
                schema: PUBLIC_SCHEMA,
                name: name.to_owned(),
                owner: BOOTSTRAP_ROLE,
                columns,
                constraints: vec![key],
                columnar: false,
            };
            let oid = transaction.create_table(new).await?;
            for (_, row) in ROWS.iter().filter(|(table, _)| *table == name) {
                let fields = row.split('|').zip(&types);
                let row: Result<Row> = fields
                    .map(|(field, data_type)| match field {
                        "" => Ok(Value::Null),
                        field => parse_value(field, data_type, &settings),
                    })
                    .collect();
                transaction.insert(oid, vec![row?], OnConflict::Fail).await?;
            }
        }
        transaction.commit().await
    }

    fn evaluation(&self) -> EvalContext {
        EvalContext {
            catalog: Some(self.database.catalog()),
            user: "stele".into(),
            acting: Acting::Owner,
            session_user: "stele".into(),
            database: "stele".into(),
            version: "test".into(),
            ..EvalContext::default()
        }
    }

    /// Plans a query of this session.
    pub(crate) fn plan(&self, text: &str) -> Result<Planned> {
        let context = QueryContext {
            engine: Arc::clone(&self.engine),
            evaluation: self.evaluation(),
            param_types: Vec::new(),
        };
        plan(&context, &parsed(text)?, text)
    }

    fn at_now(&self) -> Run {
        let mut transaction = self.database.begin(Isolation::ReadCommitted, true);
        let (evaluation, cancel) = (self.evaluation(), self.cancel.clone());
        Run { view: transaction.view(), evaluation, cancel, counts: None }
    }

    /// Returns all rows of a planned query.
    pub(crate) async fn rows(&self, planned: &Planned, params: &[Value]) -> Result<Vec<Row>> {
        let mut stream = planned.execute(self.at_now(), params).await?;
        let mut out = Vec::new();
        while let Some(rows) = stream.next_batch().await? {
            out.extend(rows);
        }
        Ok(out)
    }

    /// Returns the rows of a query as text, or `!` and the state of its error.
    pub(crate) async fn answer(&self, text: &str, params: &[&str]) -> String {
        match self.texts(text, params).await {
            Ok(text) => text,
            Err(problem) if problem.state == SqlState::INTERNAL_ERROR => format!("!{problem:?}"),
            Err(problem) => format!("!{}", problem.state.code()),
        }
    }

    async fn texts(&self, text: &str, params: &[&str]) -> Result<String> {
        let planned = self.plan(text)?;
        let settings = Settings::default();
        let values: Result<Vec<Value>> = params
            .iter()
            .zip(planned.param_types())
            .map(|(param, data_type)| parse_value(param, data_type, &settings))
            .collect();
        let rows = self.rows(&planned, &values?).await?;
        let mut out = String::new();
        for row in rows {
            let fields = row.iter().zip(planned.columns()).map(|(value, column)| {
                let mut field = Vec::new();
                if !value.is_null() {
                    encode_text(value, &column.data_type, &settings, &mut field);
                }
                String::from_utf8(field).unwrap()
            });
            let fields: Vec<String> = fields.collect();
            out.push_str(&fields.join("|"));
            out.push('\n');
        }
        Ok(out)
    }

    /// Returns the plan of a query as text.
    pub(crate) async fn explain(&self, text: &str) -> String {
        let planned = self.plan(text).unwrap();
        planned.explain(self.at_now(), &[], false).await.unwrap().join("\n")
    }

    /// Returns the value of an expression without columns.
    pub(crate) fn evaluate(&self, text: &str) -> Result<Value> {
        let evaluation = self.evaluation();
        let scope =
            Scope { engine: &self.engine, evaluation: &evaluation, columns: &[], param_types: &[] };
        compile_text(text, &scope)?.evaluate(&[], &[], &evaluation)
    }
}

fn parsed(text: &str) -> Result<Query> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, text);
    let mut statements =
        statements.map_err(|problem| Error::new(SqlState::SYNTAX_ERROR, problem.to_string()))?;
    match statements.pop() {
        Some(Statement::Query(query)) => Ok(*query),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "not a query")),
    }
}
