//! Privileges: what a role may do with an object.
//!
//! A superuser may do everything, an owner everything with what it owns, others what was granted to them,
//! to a role that they are a member of, or to all. A role with NOINHERIT has nothing of the roles that it is a
//! member of. Objects of a schema are named by those who have USAGE on it. A reader who is no role has SELECT on
//! everything, and may name the objects of each schema.

use super::Environment;
use super::bind::is_default;
use super::names::{name_of, unknown_relation};
use crate::expression::Acting;
use datafusion::sql::sqlparser::ast::{
    Expr, Lock, LockTableMode, ObjectName, Query, visit_expressions, visit_relations,
};
use relational::catalog::{
    BIGTABLE_SCHEMA, Grant, PUBLIC_ROLE, Privileges, ReadName, Relation, Role, Schema,
};
use relational::{Catalog, Error, Oid, Result, SqlState};
use std::ops::ControlFlow;
use std::sync::Arc;

impl Environment<'_> {
    /// Returns whether the role may do everything, as the catalog has it now.
    pub(crate) fn is_superuser(&self) -> bool {
        is_superuser(self.catalog, self.identity.acting)
    }

    /// Fails with 42501 unless the role has `privileges` on a table, view or sequence.
    pub(crate) fn check(&self, relation: &Relation, privileges: Privileges) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let (owner, grants, kind, name) = match relation {
            Relation::Table(table) => (table.owner, &table.grants, "table", &table.name),
            Relation::View(view) => (view.owner, &view.grants, "view", &view.name),
            Relation::Sequence(sequence) => {
                (sequence.owner, &sequence.grants, "sequence", &sequence.name)
            }
            Relation::Index(_, table) => (table.owner, &table.grants, "table", &table.name),
            Relation::Wide(wide) => (wide.owner, &wide.grants, "foreign table", &wide.name),
        };
        if has(self.catalog, self.identity.acting, owner, grants, privileges) {
            return Ok(());
        }
        Err(denied(kind, name))
    }

    /// Fails with 42501 unless the role owns a table, view or sequence.
    pub(crate) fn check_owner(&self, relation: &Relation) -> Result<()> {
        let (owner, kind, name) = match relation {
            Relation::Table(table) => (table.owner, "table", &table.name),
            Relation::Index(_, table) => (table.owner, "table", &table.name),
            Relation::View(view) => (view.owner, "view", &view.name),
            Relation::Sequence(sequence) => (sequence.owner, "sequence", &sequence.name),
            Relation::Wide(wide) => (wide.owner, "foreign table", &wide.name),
        };
        let roles = roles_of(self.catalog, self.identity.acting);
        if self.is_superuser() || roles.contains(&owner) {
            return Ok(());
        }
        let message = format!("must be owner of {kind} {name}");
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Fails with 42501 unless the role may create objects in a schema.
    pub(crate) fn check_create(&self, schema: Oid) -> Result<()> {
        self.check_create_as(self.identity.acting, schema)
    }

    fn check_create_as(&self, acting: Acting, schema: Oid) -> Result<()> {
        let Some(schema) = self.catalog.schema(schema) else { return Ok(()) };
        if is_superuser(self.catalog, acting)
            || has(self.catalog, acting, schema.owner, &schema.grants, Privileges::CREATE)
        {
            return Ok(());
        }
        Err(denied("schema", &schema.name))
    }

    /// Fails with 42501 unless the role may give an object of a schema to `owner`: as a member of `owner`, who may
    /// create objects in the schema.
    pub(crate) fn check_new_owner(&self, owner: Oid, schema: Oid) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        if !memberships_of(self.catalog, self.identity.acting).contains(&owner) {
            let name = self.catalog.role(owner).map(|role| role.name.as_str()).unwrap_or_default();
            let message = format!("must be member of role \"{name}\"");
            return Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.check_create_as(Acting::Role(owner), schema)
    }

    /// Fails with 42501 unless the role is a superuser.
    pub(crate) fn check_superuser(&self, what: &str) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let message = format!("permission denied to {what}");
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Fails with 42501 unless the role may read every table and view that a plan found.
    pub(crate) fn check_reads(&self, reads: &[ReadName]) -> Result<()> {
        let mut found = reads.iter().filter_map(|read| self.catalog.relation(read.oid));
        found.try_for_each(|relation| self.check_read(&relation))
    }

    /// Fails with 42501 unless the role may read every table that a query names.
    pub(crate) fn check_query(&self, query: &Query) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let outcome = visit_relations(query, |name: &ObjectName| {
            let checked = match self.find(name) {
                Ok(Some(relation)) => self.check_read(&relation),
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            match checked {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match outcome {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }
}

impl Environment<'_> {
    /// Fails with 42501 unless the role may read a relation, and the owner of a view what the view reads.
    fn check_read(&self, relation: &Relation) -> Result<()> {
        self.check(relation, Privileges::SELECT)?;
        let mut views: Vec<Oid> = match relation {
            Relation::View(view) => vec![view.oid],
            _ => return Ok(()),
        };
        let mut at = 0;
        while let Some(view) = views.get(at).and_then(|view| self.catalog.view(*view)) {
            let owner = self.catalog.role(view.owner);
            for read in view.reads.iter().filter_map(|read| self.catalog.relation(*read)) {
                let (kind, name, of, grants) = match &read {
                    Relation::Table(table) => ("table", &table.name, table.owner, &table.grants),
                    Relation::View(inner) => ("view", &inner.name, inner.owner, &inner.grants),
                    Relation::Wide(wide) => ("foreign table", &wide.name, wide.owner, &wide.grants),
                    _ => continue,
                };
                let may = owner.is_some_and(|owner| {
                    let select = Privileges::SELECT;
                    owner.superuser
                        || has(self.catalog, Acting::Role(owner.oid), of, grants, select)
                });
                if !may {
                    return Err(denied(kind, name));
                }
                if matches!(read, Relation::View(_)) && !views.contains(&read.oid()) {
                    views.push(read.oid());
                }
            }
            at += 1;
        }
        Ok(())
    }
}

/// Returns whether an expression has the value of a column, or of a subquery. Errors of such expressions may show
/// the values.
pub(crate) fn reads_columns(expression: &Expr) -> bool {
    let found = visit_expressions(expression, |part| {
        let is_read = match part {
            Expr::Identifier(_) => !is_default(part),
            Expr::CompoundIdentifier(_)
            | Expr::CompoundFieldAccess { .. }
            | Expr::Subquery(_)
            | Expr::InSubquery { .. }
            | Expr::Exists { .. } => true,
            _ => false,
        };
        if is_read { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}

/// Returns who acts for a client that logs in by a name, if there is a role of the name. A name of no role is let in as
/// the owner of the database while no role has a password.
pub(crate) fn acting_as(catalog: &Catalog, user: &str) -> Option<Acting> {
    match catalog.role_named(user) {
        Some(role) => Some(Acting::Role(role.oid)),
        None => Some(Acting::Owner).filter(|owner| is_superuser(catalog, *owner)),
    }
}

/// Returns whether a role may do everything. The owner who is no role may while no role has a password. A role that was
/// dropped may not.
pub(crate) fn is_superuser(catalog: &Catalog, acting: Acting) -> bool {
    match acting {
        Acting::Owner => catalog.roles().all(|role| role.password.is_none()),
        Acting::Role(oid) => catalog.role(oid).is_some_and(|role| role.superuser),
        Acting::Reader => false,
    }
}

/// Returns the number of a role and of all roles whose privileges it has; none for a role that was dropped.
pub(crate) fn roles_of(catalog: &Catalog, acting: Acting) -> Vec<Oid> {
    reached(catalog, acting, |role| role.inherit)
}

/// Returns the number of a role and of all roles that it is a member of.
pub(crate) fn memberships_of(catalog: &Catalog, acting: Acting) -> Vec<Oid> {
    reached(catalog, acting, |_| true)
}

/// Returns a role and the roles that are reached from it by memberships of the roles that `follows` takes.
fn reached(catalog: &Catalog, acting: Acting, follows: impl Fn(&Role) -> bool) -> Vec<Oid> {
    let Acting::Role(own) = acting else { return Vec::new() };
    let mut roles: Vec<Oid> = catalog.role(own).map(|role| role.oid).into_iter().collect();
    let mut at = 0;
    while let Some(oid) = roles.get(at).copied() {
        at += 1;
        let Some(role) = catalog.role(oid) else { continue };
        if !follows(role) {
            continue;
        }
        for group in &role.member_of {
            if !roles.contains(group) {
                roles.push(*group);
            }
        }
    }
    roles
}

/// Returns whether a role may name the objects of a schema. All may name the tables of `bigtable`.
pub(crate) fn may_use(catalog: &Arc<Catalog>, acting: Acting, schema: &Schema) -> bool {
    schema.oid == BIGTABLE_SCHEMA
        || acting == Acting::Reader
        || is_superuser(catalog, acting)
        || has(catalog, acting, schema.owner, &schema.grants, Privileges::USAGE)
}

/// Returns whether a role owns an object, or has privileges on it.
pub(crate) fn has(
    catalog: &Arc<Catalog>,
    acting: Acting,
    owner: Oid,
    grants: &[Grant],
    privileges: Privileges,
) -> bool {
    if acting == Acting::Reader {
        return Privileges::SELECT.contains(privileges);
    }
    let roles = roles_of(catalog, acting);
    if roles.contains(&owner) {
        return true;
    }
    let applies = |grant: &&Grant| grant.role == PUBLIC_ROLE || roles.contains(&grant.role);
    let all = grants.iter().filter(applies).fold(0, |all, grant| all | grant.privileges.0);
    Privileges(all).contains(privileges)
}

/// Returns the error of a privilege that the role does not have (42501).
pub(crate) fn denied(kind: &str, name: &str) -> Error {
    let message = format!("permission denied for {kind} {name}");
    Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

/// Checks a `LOCK TABLE`. Only the weakest mode is taken: a reader sees a snapshot anyway.
pub(super) fn check_lock(environment: &Environment<'_>, text: &str, lock: &Lock) -> Result<()> {
    for target in &lock.tables {
        let relation = environment.relation(&target.name, text)?;
        environment.check(&relation, Privileges::SELECT)?;
    }
    match lock.lock_mode {
        Some(LockTableMode::AccessShare) => Ok(()),
        _ => Err(Error::unsupported("LOCK TABLE in another mode than ACCESS SHARE")),
    }
}

/// Returns the number of a role that a statement names.
pub(crate) fn role_oid(catalog: &Catalog, name: &str) -> Result<Oid> {
    catalog.role_named(name).map(|role| role.oid).ok_or_else(|| {
        let message = format!("role \"{name}\" does not exist");
        Error::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

/// Returns the only name of a role in a statement.
pub(crate) fn role_name(name: &ObjectName) -> Result<String> {
    let mut parts = name.0.iter().filter_map(|part| part.as_ident()).map(name_of);
    match (parts.next(), parts.next()) {
        (Some(name), None) => Ok(name),
        _ => Err(unknown_relation(name)),
    }
}
