//! Grants as PostgreSQL writes them: `role=letters/owner`.

use super::list;
use super::relations::role_name;
use relational::catalog::{BOOTSTRAP_ROLE, Grant, PUBLIC_ROLE, Privileges};
use relational::{Catalog, DataType, Value};

/// The kind of the object that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A table or a view.
    Table,
    Sequence,
    Schema,
}

/// Letters of the privileges, in PostgreSQL's order.
const LETTERS: &[(Privileges, char)] = &[
    (Privileges::INSERT, 'a'),
    (Privileges::SELECT, 'r'),
    (Privileges::UPDATE, 'w'),
    (Privileges::DELETE, 'd'),
    (Privileges::TRUNCATE, 'D'),
    (Privileges::REFERENCES, 'x'),
    (Privileges::TRIGGER, 't'),
    (Privileges::USAGE, 'U'),
    (Privileges::CREATE, 'C'),
];

fn letters(privileges: Privileges) -> String {
    LETTERS.iter().filter(|(one, _)| privileges.contains(*one)).map(|(_, letter)| letter).collect()
}

/// Returns a grant to all roles, of something that the server itself owns.
pub(super) fn to_all(privileges: Privileges) -> Grant {
    Grant { role: PUBLIC_ROLE, grantor: BOOTSTRAP_ROLE, privileges, grantable: Privileges(0) }
}

/// Returns the grants on an object, the owner's first; NULL if nothing was granted.
pub(super) fn acl(catalog: &Catalog, owner: u32, grants: &[Grant], kind: Kind) -> Value {
    if grants.is_empty() {
        return Value::Null;
    }
    let all = match kind {
        Kind::Table => Privileges::ALL_OF_TABLE,
        Kind::Sequence => Privileges::ALL_OF_SEQUENCE,
        Kind::Schema => Privileges::ALL_OF_SCHEMA,
    };
    let by = role_name(catalog, owner);
    let line = |role: u32, privileges: Privileges| {
        let role = match role {
            PUBLIC_ROLE => String::new(),
            role => role_name(catalog, role),
        };
        Value::text(format!("{role}={}/{by}", letters(privileges)))
    };
    let others = grants.iter().filter(|grant| grant.role != owner);
    let lines = std::iter::once(line(owner, all))
        .chain(others.map(|grant| line(grant.role, grant.privileges)));
    list(&DataType::Text, lines.collect())
}
