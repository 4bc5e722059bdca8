//! The table of a run: made when it is missing, and never emptied or removed.

use super::{Place, Service};
use crate::Error;
use admin::bigtable_table_admin_client::BigtableTableAdminClient;
use admin::gc_rule::Rule;
use admin::modify_column_families_request::{Modification, modification::Mod};
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use std::collections::BTreeMap;
use std::time::Duration;
use tonic::{Code, Status};

/// Time that one call may take; Google's service takes some seconds to make a table.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);

/// Makes sure that the table and its column family exist. Returns a sentence that says what was done.
pub(crate) async fn make_table(service: Service, place: &Place) -> Result<String, Error> {
    let mut client = BigtableTableAdminClient::new(service);
    let request = admin::GetTableRequest {
        name: place.table.clone(),
        view: admin::table::View::SchemaView.into(),
    };
    let (table, family) = (&place.table, &place.family);
    match within(client.get_table(request)).await {
        Ok(found) if found.column_families.contains_key(family) => {
            Ok(format!("uses family {family} of the existing table {table}"))
        }
        Ok(_) => add_family(&mut client, place).await,
        Err(status) if status.code() == Code::NotFound => create(&mut client, place).await,
        Err(status) => Err(Error::schema("could not look for the table", &status)),
    }
}

async fn create(
    client: &mut BigtableTableAdminClient<Service>,
    place: &Place,
) -> Result<String, Error> {
    let malformed = || Error::Setting(format!("{:?} is no name of a table", place.table));
    let (parent, id) = place.table.rsplit_once("/tables/").ok_or_else(malformed)?;
    let column_families = BTreeMap::from([(place.family.clone(), family())]);
    let request = admin::CreateTableRequest {
        parent: parent.to_owned(),
        table_id: id.to_owned(),
        table: Some(admin::Table { column_families, ..Default::default() }),
        initial_splits: Vec::new(),
    };
    match within(client.create_table(request)).await {
        Ok(_) => Ok(format!("created table {} with family {}", place.table, place.family)),
        // Another process of the same run was faster.
        Err(status) if status.code() == Code::AlreadyExists => add_family(client, place).await,
        Err(status) => Err(Error::schema("could not create the table", &status)),
    }
}

async fn add_family(
    client: &mut BigtableTableAdminClient<Service>,
    place: &Place,
) -> Result<String, Error> {
    let create = Some(Mod::Create(family()));
    let modification =
        Modification { id: place.family.clone(), r#mod: create, ..Default::default() };
    let request = admin::ModifyColumnFamiliesRequest {
        name: place.table.clone(),
        modifications: vec![modification],
        ..Default::default()
    };
    match within(client.modify_column_families(request)).await {
        Ok(_) => Ok(format!("added family {} to table {}", place.family, place.table)),
        Err(status) if status.code() == Code::AlreadyExists => {
            Ok(format!("uses family {} of the existing table {}", place.family, place.table))
        }
        Err(status) => Err(Error::schema("could not add the column family", &status)),
    }
}

/// Returns a family that keeps the newest version of each cell, so that updates do not grow the table.
fn family() -> admin::ColumnFamily {
    let newest = admin::GcRule { rule: Some(Rule::MaxNumVersions(1)) };
    admin::ColumnFamily { gc_rule: Some(newest), ..Default::default() }
}

async fn within<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer.map(tonic::Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("no answer within two minutes")),
    }
}
