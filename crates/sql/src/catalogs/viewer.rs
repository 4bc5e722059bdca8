//! The role that looks at the views of `information_schema`: they show what the role has privileges on.

use relational::catalog::{BIGTABLE_SCHEMA, Grant, PUBLIC_ROLE, Privileges, Schema};
use relational::{Catalog, Oid, Table};

use crate::expression::{Acting, EvalContext};
use crate::statement::privilege::{is_superuser, roles_of};

/// Privileges that a column can have, too.
pub(super) const OF_COLUMNS: Privileges = Privileges(
    Privileges::SELECT.0 | Privileges::INSERT.0 | Privileges::UPDATE.0 | Privileges::REFERENCES.0,
);
/// Privileges on a table but for reading.
pub(super) const BUT_SELECT: Privileges =
    Privileges(Privileges::ALL_OF_TABLE.0 & !Privileges::SELECT.0);

/// The role that looks at the views.
pub(super) struct Viewer {
    is_superuser: bool,
    /// True for one who may read everything, and do nothing else.
    is_reader: bool,
    /// The role, and the roles whose privileges it has.
    roles: Vec<Oid>,
}

impl Viewer {
    /// Returns the role that a query acts as.
    pub(super) fn of(catalog: &Catalog, context: &EvalContext) -> Self {
        let roles = roles_of(catalog, context.acting);
        let is_reader = context.acting == Acting::Reader;
        Self { is_superuser: is_superuser(catalog, context.acting), is_reader, roles }
    }

    /// Returns whether what `owner` owns is the role's own.
    pub(super) fn owns(&self, owner: Oid) -> bool {
        self.is_superuser || self.roles.contains(&owner)
    }

    /// Returns whether the role owns an object, or has one of `privileges` on it.
    pub(super) fn sees(&self, owner: Oid, grants: &[Grant], privileges: Privileges) -> bool {
        let applies = |grant: &Grant| grant.role == PUBLIC_ROLE || self.roles.contains(&grant.role);
        let has = |grant: &Grant| grant.privileges.0 & privileges.0 != 0;
        let may_read = self.is_reader && privileges.0 & Privileges::SELECT.0 != 0;
        self.owns(owner) || may_read || grants.iter().any(|grant| applies(grant) && has(grant))
    }

    /// Returns whether the role owns a table, or has one of `privileges` on it.
    pub(super) fn sees_table(&self, table: &Table, privileges: Privileges) -> bool {
        self.sees(table.owner, &table.grants, privileges)
    }

    /// Returns whether the role may use a schema, or create objects there.
    pub(super) fn sees_schema(&self, schema: &Schema) -> bool {
        schema.oid == BIGTABLE_SCHEMA
            || self.is_reader
            || self.sees(schema.owner, &schema.grants, Privileges::ALL_OF_SCHEMA)
    }
}
