//! Roles and privileges.

use super::super::Transaction;
use super::definitions::{GrantChange, GrantOn, NewRole, RoleChange};
use super::{check_name, depends};
use crate::catalog::record::Object;
use crate::catalog::{BOOTSTRAP_ROLE, Catalog, Grant, Role};
use crate::error::{Error, Result};
use crate::state::SqlState;
use crate::types::Oid;

impl Transaction {
    /// Creates a role and returns its number. 42710 if the name is taken.
    pub async fn create_role(&mut self, new: NewRole) -> Result<Oid> {
        self.begin_change("CREATE ROLE").await?;
        self.change(|catalog| {
            check_free_role(catalog, &new.name)?;
            let oid = catalog.take_oid();
            let mut role = Role {
                oid,
                name: new.name,
                superuser: false,
                login: false,
                create_role: false,
                inherit: true,
                password: None,
                member_of: Vec::new(),
                comment: None,
            };
            apply(catalog, &mut role, new.attributes)?;
            catalog.put_role(role);
            Ok(oid)
        })
    }

    /// Changes a role. 42704 if it is not there, 0LP01-like circles of membership fail with 42P17.
    pub async fn alter_role(&mut self, role: Oid, change: RoleChange) -> Result<()> {
        self.begin_change("ALTER ROLE").await?;
        self.change(|catalog| {
            let found = catalog.role(role).map(|role| Role::clone(role));
            let mut role = found.ok_or_else(no_role)?;
            if let Some(name) = &change.name {
                check_free_role(catalog, name)?;
            }
            apply(catalog, &mut role, change)?;
            catalog.put_role(role);
            Ok(())
        })
    }

    /// Drops a role with its privileges and memberships. 2BP01 if it owns something.
    pub async fn drop_role(&mut self, role: Oid) -> Result<()> {
        self.begin_change("DROP ROLE").await?;
        self.change(|catalog| {
            let name = catalog.role(role).map(|role| role.name.clone()).ok_or_else(no_role)?;
            let tables = catalog.tables().filter(|table| table.owner == role);
            let mut owned: Vec<_> = tables.map(|table| format!("table {}", table.name)).collect();
            let views = catalog.views().filter(|view| view.owner == role);
            owned.extend(views.map(|view| format!("view {}", view.name)));
            let sequences = catalog.sequences().filter(|sequence| sequence.owner == role);
            owned.extend(sequences.map(|sequence| format!("sequence {}", sequence.name)));
            let wides = catalog.wides().filter(|wide| wide.owner == role && !wide.has_cells());
            owned.extend(wides.map(|wide| format!("foreign table {}", wide.name)));
            let schemas = catalog.schemas().filter(|schema| schema.owner == role);
            owned.extend(schemas.map(|schema| format!("schema {}", schema.name)));
            if role == BOOTSTRAP_ROLE {
                owned.push("the database".to_owned());
            }
            if !owned.is_empty() {
                return Err(depends(&format!("role {name}"), &owned));
            }
            for oid in super::super::commit::oids(catalog) {
                forget_role(catalog, oid, role);
            }
            catalog.remove_role(role);
            Ok(())
        })
    }

    /// Gives privileges to a role. 42704 if the thing is not there.
    pub async fn grant(&mut self, grant: GrantChange) -> Result<()> {
        self.begin_change("GRANT").await?;
        self.change_grants(grant.on, |grants| {
            let by_both =
                |have: &&mut Grant| have.role == grant.role && have.grantor == grant.grantor;
            let at = match grants.iter_mut().find(by_both) {
                Some(have) => have,
                None => {
                    grants.push(Grant {
                        role: grant.role,
                        grantor: grant.grantor,
                        privileges: Default::default(),
                        grantable: Default::default(),
                    });
                    let Some(last) = grants.last_mut() else { return };
                    last
                }
            };
            at.privileges = at.privileges.with(grant.privileges);
            if grant.grant_option {
                at.grantable = at.grantable.with(grant.privileges);
            }
        })
    }

    /// Takes privileges from a role, by any grantor. 42704 if the thing is not there.
    pub async fn revoke(&mut self, grant: GrantChange) -> Result<()> {
        self.begin_change("REVOKE").await?;
        self.change_grants(grant.on, |grants| {
            for have in grants.iter_mut().filter(|have| have.role == grant.role) {
                have.grantable = have.grantable.without(grant.privileges);
                if !grant.grant_option {
                    have.privileges = have.privileges.without(grant.privileges);
                }
            }
            grants.retain(|have| !have.privileges.is_empty());
        })
    }

    fn change_grants(&mut self, on: GrantOn, change: impl FnOnce(&mut Vec<Grant>)) -> Result<()> {
        self.change(|catalog| {
            let (GrantOn::Relation(oid) | GrantOn::Schema(oid)) = on;
            let mut object = catalog.object(oid);
            let grants = object.as_mut().and_then(grants_of);
            let missing = || Error::new(SqlState::UNDEFINED_OBJECT, "the object does not exist");
            change(grants.ok_or_else(missing)?);
            object.into_iter().for_each(|object| catalog.put(object));
            Ok(())
        })
    }
}

fn grants_of(object: &mut Object) -> Option<&mut Vec<Grant>> {
    match object {
        Object::Schema(schema) => Some(&mut schema.grants),
        Object::Table(table) => Some(&mut table.grants),
        Object::View(view) => Some(&mut view.grants),
        Object::Sequence(sequence) => Some(&mut sequence.grants),
        Object::Wide(wide) => Some(&mut wide.grants),
        Object::Database(_) | Object::Role(_) => None,
    }
}

/// Removes the privileges and memberships of a role that goes from an object.
fn forget_role(catalog: &mut Catalog, oid: Oid, role: Oid) {
    let Some(mut object) = catalog.object(oid) else { return };
    let is_changed = match &mut object {
        Object::Role(other) => {
            let before = other.member_of.len();
            other.member_of.retain(|group| *group != role);
            other.member_of.len() != before
        }
        object => match grants_of(object) {
            Some(grants) => {
                let before = grants.len();
                grants.retain(|grant| grant.role != role);
                grants.len() != before
            }
            None => false,
        },
    };
    if is_changed {
        catalog.put(object);
    }
}

fn check_free_role(catalog: &Catalog, name: &str) -> Result<()> {
    check_name(name)?;
    if name.starts_with("pg_") || matches!(name, "public" | "none") {
        let message = format!("role name \"{name}\" is reserved");
        return Err(Error::new(SqlState::RESERVED_NAME, message));
    }
    match catalog.role_named(name) {
        None => Ok(()),
        Some(_) => {
            let message = format!("role \"{name}\" already exists");
            Err(Error::new(SqlState::DUPLICATE_OBJECT, message))
        }
    }
}

fn apply(catalog: &Catalog, role: &mut Role, change: RoleChange) -> Result<()> {
    role.superuser = change.superuser.unwrap_or(role.superuser);
    role.login = change.login.unwrap_or(role.login);
    role.create_role = change.create_role.unwrap_or(role.create_role);
    role.inherit = change.inherit.unwrap_or(role.inherit);
    role.password = change.password.unwrap_or_else(|| role.password.take());
    role.name = change.name.unwrap_or_else(|| std::mem::take(&mut role.name));
    for group in change.join {
        if group == role.oid || is_member(catalog, group, role.oid) {
            let message = format!("role \"{}\" would be a member of itself", role.name);
            return Err(Error::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        if !role.member_of.contains(&group) {
            role.member_of.push(group);
        }
    }
    role.member_of.retain(|group| !change.leave.contains(group));
    Ok(())
}

/// Returns true if `role` is a member of `group`, over any number of groups.
fn is_member(catalog: &Catalog, role: Oid, group: Oid) -> bool {
    let mut open = vec![role];
    let mut seen = Vec::new();
    while let Some(next) = open.pop() {
        if next == group {
            return true;
        }
        if !seen.contains(&next) {
            seen.push(next);
            open.extend(catalog.role(next).iter().flat_map(|role| role.member_of.iter().copied()));
        }
    }
    false
}

fn no_role() -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, "the role does not exist")
}
