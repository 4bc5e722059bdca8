//! A server with its tables, and the requests that workloads send.

use super::TrainArgs;
use crate::AnyError;
use crate::server::Server;
use bench_core::{KeyKind, SplitMix64, random_key, random_value};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

/// The instance of all tables.
pub(super) const INSTANCE: &str = "projects/train/instances/train";
/// Families of every table.
pub(super) const FAMILIES: [&str; 3] = ["f", "g", "h"];
/// Columns of each family of a wide row.
pub(super) const QUALIFIERS: [&str; 4] = ["column-0", "column-1", "column-2", "column-3"];
const KEY_BYTES: usize = 50;
const VALUE_BYTES: usize = 256;
const WIDE_VALUE_BYTES: usize = 32;
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A client of the data service.
pub(super) type Client = data::bigtable_client::BigtableClient<Channel>;

/// Which table a workload is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// Rows of one column.
    Narrow,
    /// Rows of three families of four columns; an eighth as many.
    Wide,
    /// Rows that are written again and again.
    Churn,
    /// What `stele import` fills.
    Imported,
}

impl Table {
    /// Each of them.
    const ALL: [Self; 4] = [Self::Narrow, Self::Wide, Self::Churn, Self::Imported];

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Wide => "wide",
            Self::Churn => "churn",
            Self::Imported => "imported",
        }
    }

    /// Its full name.
    pub(super) fn name(self) -> String {
        format!("{INSTANCE}/tables/{}", self.id())
    }

    /// The cells of row `number`, of which there were already `generation` others.
    pub(super) fn cells(self, number: u64, generation: u64) -> Vec<data::Mutation> {
        let cell = |family: &str, qualifier: &str, at: u64, bytes: usize| {
            let mut cell = vec![0; bytes];
            random_value(number << 16 | generation << 8 | at, &mut cell);
            set_cell(family, qualifier, cell)
        };
        if self != Self::Wide {
            return vec![cell(FAMILIES[0], "q", 0, VALUE_BYTES)];
        }
        let columns =
            FAMILIES.iter().flat_map(|family| QUALIFIERS.iter().map(move |q| (family, q)));
        let numbered = columns.zip(0..);
        numbered.map(|((family, q), at)| cell(family, q, at, WIDE_VALUE_BYTES)).collect()
    }
}

/// A mutation that sets a cell, its timestamp the server's.
pub(super) fn set_cell(family: &str, qualifier: &str, value: Vec<u8>) -> data::Mutation {
    let set = data::mutation::SetCell {
        family_name: family.to_owned(),
        column_qualifier: qualifier.to_owned().into(),
        timestamp_micros: -1,
        value: value.into(),
    };
    data::Mutation { mutation: Some(data::mutation::Mutation::SetCell(set)) }
}

/// The key of row `number`.
pub(super) fn row_key(number: u64, kind: KeyKind) -> Vec<u8> {
    let mut bytes = vec![0; KEY_BYTES];
    random_key(number, kind, &mut bytes);
    bytes
}

/// A server that has the tables.
pub(super) struct Session {
    pub(super) server: Server,
    pub(super) client: Client,
    /// Rows of [`Table::Narrow`] and [`Table::Churn`].
    pub(super) rows: u64,
    pub(super) dir: PathBuf,
    clients: u64,
    seed: u64,
}

impl Session {
    /// Connects to `server` and creates the tables.
    pub(super) async fn open(
        args: &TrainArgs,
        server: Server,
        dir: &Path,
    ) -> Result<Self, AnyError> {
        let channel = connect(&server).await?;
        let mut admin =
            admin::bigtable_table_admin_client::BigtableTableAdminClient::new(channel.clone());
        for table in Table::ALL {
            let rule = admin::gc_rule::Rule::MaxNumVersions(2);
            let gc_rule = Some(admin::GcRule { rule: Some(rule) });
            let family = admin::ColumnFamily { gc_rule, ..Default::default() };
            let families = FAMILIES.map(|name| (name.to_owned(), family.clone()));
            let request = admin::CreateTableRequest {
                parent: INSTANCE.to_owned(),
                table_id: table.id().to_owned(),
                table: Some(admin::Table {
                    column_families: BTreeMap::from(families),
                    ..Default::default()
                }),
                ..Default::default()
            };
            admin.create_table(request).await?;
        }
        let (clients, seed, rows) = (args.clients, args.seed, args.rows);
        Ok(Self { server, client: client(channel), rows, dir: dir.to_owned(), clients, seed })
    }

    /// Connects to the server again, after its restart.
    pub(super) async fn reconnect(&mut self) -> Result<(), AnyError> {
        self.client = client(connect(&self.server).await?);
        Ok(())
    }

    /// Fills the tables that are only read.
    pub(super) async fn fill(&self) -> Result<(), AnyError> {
        self.write(Table::Narrow, self.rows, 0).await?;
        self.write(Table::Wide, self.rows_of(Table::Wide), 0).await?;
        Ok(())
    }

    pub(super) fn rows_of(&self, table: Table) -> u64 {
        if table == Table::Wide { self.rows.div_ceil(8) } else { self.rows }
    }

    /// Writes the first `rows` rows of `table` in batches; gives their number.
    pub(super) async fn write(
        &self,
        table: Table,
        rows: u64,
        generation: u64,
    ) -> Result<u64, AnyError> {
        const BATCH: u64 = 100;
        self.repeat(rows.div_ceil(BATCH), move |mut client, batch| async move {
            let entry = |number| data::mutate_rows_request::Entry {
                row_key: row_key(number, KeyKind::Present).into(),
                mutations: table.cells(number, generation),
                ..Default::default()
            };
            let numbers = batch * BATCH..rows.min((batch + 1) * BATCH);
            let request = data::MutateRowsRequest {
                table_name: table.name(),
                entries: numbers.map(entry).collect(),
                ..Default::default()
            };
            let mut replies = client.mutate_rows(request).await?.into_inner();
            while let Some(reply) = replies.message().await? {
                let mut statuses = reply.entries.into_iter().filter_map(|entry| entry.status);
                if let Some(failed) = statuses.find(|status| status.code != 0) {
                    return Err(failed.message.into());
                }
            }
            Ok(())
        })
        .await?;
        Ok(rows)
    }

    /// Does `work` with the numbers `[0, count)`, some at once; gives `count`.
    pub(super) async fn repeat<W, F>(&self, count: u64, work: W) -> Result<u64, AnyError>
    where
        W: Fn(Client, u64) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<(), AnyError>> + Send,
    {
        let next = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..self.clients {
            let (work, next, client) = (work.clone(), Arc::clone(&next), self.client.clone());
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<_, AnyError>(());
                    }
                    work(client.clone(), number).await?;
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(count)
    }

    /// The `at`-th row of `table` to be asked for.
    pub(super) fn asked(&self, table: Table) -> impl Fn(u64) -> u64 + Clone + use<> {
        let (seed, rows) = (self.seed, self.rows_of(table));
        move |at| SplitMix64(seed ^ at.wrapping_mul(0xd129_9cb1_92a3_f1e5)).below(rows)
    }
}

async fn connect(server: &Server) -> Result<Channel, AnyError> {
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address()))?;
    Ok(endpoint.tcp_nodelay(true).connect().await?)
}

fn client(channel: Channel) -> Client {
    Client::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}
