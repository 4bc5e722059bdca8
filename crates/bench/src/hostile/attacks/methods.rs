//! The methods of all services, each with a request about the tables under attack.

use crate::hostile::tables::{INSTANCE, NARROW};
use bigtable::METHODS;
use prost::Message;

/// Everybody may ask what they may do.
const FOR_EVERYBODY: &str = "TestIamPermissions";
/// Methods that a reader may call, beside all whose names begin with `Get` or `List`.
const FOR_READERS: [&str; 9] = [
    "CheckConsistency",
    "ExecuteQuery",
    "GenerateConsistencyToken",
    "GenerateInitialChangeStreamPartitions",
    "PingAndWarm",
    "PrepareQuery",
    "ReadChangeStream",
    "ReadRows",
    "SampleRowKeys",
];

/// A call of a method.
#[derive(Debug, Clone)]
pub(in crate::hostile) struct Call {
    pub(in crate::hostile) path: &'static str,
    /// The message as it is sent.
    pub(in crate::hostile) request: Vec<u8>,
}

/// A request that names its resource.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

/// A request that holds the changed resource.
#[derive(Clone, PartialEq, Message)]
struct Changed {
    #[prost(message, optional, tag = "1")]
    resource: Option<Named>,
}

/// A request of the method `ListOperations`.
#[derive(Clone, PartialEq, Message)]
struct Listed {
    #[prost(string, tag = "4")]
    name: String,
}

/// Returns a call of every method that needs a permission.
pub(super) fn guarded() -> Vec<Call> {
    METHODS
        .iter()
        .filter(|path| name(path) != FOR_EVERYBODY)
        .map(|path| Call { path, request: request(path) })
        .collect()
}

/// Returns a call of every method that a reader may not call.
pub(super) fn above_readers() -> Vec<Call> {
    let mut calls = guarded();
    calls.retain(|call| {
        let name = name(call.path);
        let looks = name.starts_with("Get") || name.starts_with("List") || name == "WaitOperation";
        let is_policy = name == "GetIamPolicy";
        is_policy || !looks && !FOR_READERS.contains(&name)
    });
    calls
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the request of the method at `path`, with its resource and no more.
fn request(path: &str) -> Vec<u8> {
    let (method, resource) = (name(path), resource(path));
    // The resources themselves are the requests of two methods that update.
    let is_whole = ["UpdateInstance", "UpdateCluster"].contains(&method);
    if method == "ListOperations" {
        Listed { name: resource }.encode_to_vec()
    } else if method.contains("Update") && !is_whole {
        Changed { resource: Some(Named { name: resource }) }.encode_to_vec()
    } else {
        Named { name: resource }.encode_to_vec()
    }
}

/// Returns the name of the table or the instance that the method at `path` is about.
fn resource(path: &str) -> String {
    let method = name(path);
    let of_instance = ["PingAndWarm", "PrepareQuery", "ExecuteQuery", "CreateTable", "ListTables"];
    if path.contains("longrunning") {
        format!("operations/{INSTANCE}/locations/hostile/operations/1")
    } else if of_instance.contains(&method) || path.contains("InstanceAdmin") {
        INSTANCE.to_owned()
    } else {
        NARROW.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
    use googleapis_tonic_google_bigtable_v2::google::bigtable::v2 as data;

    fn request_of<M: Message + Default>(method: &str) -> M {
        let path = METHODS.iter().find(|path| name(path) == method).unwrap();
        M::decode(&request(path)[..]).unwrap()
    }

    #[test]
    fn requests_name_their_resources_where_the_methods_look_for_them() {
        assert_eq!(request_of::<data::ReadRowsRequest>("ReadRows").table_name, NARROW);
        assert_eq!(request_of::<data::ExecuteQueryRequest>("ExecuteQuery").instance_name, INSTANCE);
        assert_eq!(request_of::<admin::CreateTableRequest>("CreateTable").parent, INSTANCE);
        assert_eq!(request_of::<admin::DeleteTableRequest>("DeleteTable").name, NARROW);
        let update: admin::UpdateTableRequest = request_of("UpdateTable");
        assert_eq!(update.table.unwrap().name, NARROW);
        let update: admin::PartialUpdateClusterRequest = request_of("PartialUpdateCluster");
        assert_eq!(update.cluster.unwrap().name, INSTANCE);
        assert_eq!(request_of::<admin::Instance>("UpdateInstance").name, INSTANCE);
    }

    #[test]
    fn readers_may_call_the_methods_that_change_nothing() {
        let above: Vec<_> = above_readers().iter().map(|call| name(call.path)).collect();
        for method in ["MutateRow", "CheckAndMutateRow", "DropRowRange", "GetIamPolicy"] {
            assert!(above.contains(&method), "{method}");
        }
        for method in ["ReadRows", "GetTable", "ListInstances", FOR_EVERYBODY] {
            assert!(!above.contains(&method), "{method}");
        }
        assert!(guarded().len() > above.len() && guarded().len() == METHODS.len() - 2);
    }
}
