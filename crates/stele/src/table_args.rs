//! Options that name a table: of commands that write to one or read one.

use crate::config::ConfigError;
use clap::Args;
use table::TableName;

/// Names a table on a server.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Table: an id, or a full name projects/P/instances/I/tables/T.
    #[arg(long, value_name = "TABLE")]
    table: String,

    /// Project of the table. Any name works; readers must use the same one.
    #[arg(long, value_name = "NAME", default_value = "local")]
    project: String,

    /// Instance of the table. Any name works; readers must use the same one.
    #[arg(long, value_name = "NAME", default_value = "local")]
    instance: String,
}

impl TableArgs {
    /// Returns the full name of the table.
    pub(crate) fn name(&self) -> Result<TableName, ConfigError> {
        let name = if self.table.contains('/') {
            self.table.clone()
        } else {
            format!("projects/{}/instances/{}/tables/{}", self.project, self.instance, self.table)
        };
        // A program that writes to a directory itself makes no table that a server would refuse.
        bigtable::table_name("--table", &name).map_err(|error| ConfigError(error.to_string()))
    }
}
