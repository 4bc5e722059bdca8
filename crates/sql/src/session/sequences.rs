//! Sequences as expressions use them: `nextval`, `currval`, `lastval`, `setval`.
//!
//! Invariants:
//! 1. `currval` and `lastval` tell of this session only.
//! 2. A role needs USAGE or UPDATE to get a number, UPDATE to set one, USAGE or SELECT to see its own last.
//! 3. Expressions are computed without awaits, and the next block of numbers is written by one. The thread
//!    waits for that, and says so. The work is done on the threads of sessions: see `threads.rs`.

use crate::expression::{Acting, Sequences};
use crate::statement::privilege::{has, is_superuser};
use crate::threads::result_of;
use parking_lot::Mutex;
use relational::catalog::{Privileges, Relation, Sequence};
use relational::{Catalog, Database, Error, Oid, Restarts, Result, SqlState};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Numbers that a session got from sequences.
#[derive(Debug, Default)]
pub(crate) struct Given {
    by_sequence: HashMap<Oid, i64>,
    last: Option<Oid>,
}

impl Given {
    /// Notes a number that a sequence gave.
    pub(crate) fn note(&mut self, sequence: Oid, number: i64) {
        self.by_sequence.insert(sequence, number);
        self.last = Some(sequence);
    }
}

/// The sequences that a statement names, and the numbers that its session got.
pub(crate) struct SessionSequences {
    pub(crate) database: Arc<Database>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) path: Arc<[String]>,
    pub(crate) given: Arc<Mutex<Given>>,
    /// Sequences that the transaction restarted.
    pub(crate) restarts: Restarts,
    /// The one whose rights count in the session.
    pub(crate) acting: Acting,
    /// The threads that sessions run on.
    pub(crate) threads: Handle,
    /// True in a transaction that may not write.
    pub(crate) is_read_only: bool,
}

impl SessionSequences {
    fn find(&self, name: &str) -> Result<Arc<Sequence>> {
        if let Ok(oid) = name.parse::<Oid>()
            && let Some(sequence) = self.catalog.sequence(oid)
        {
            return Ok(Arc::clone(sequence));
        }
        let parts = split(name);
        let found = match parts.as_slice() {
            [name] => self
                .path
                .iter()
                .find_map(|schema| self.catalog.find(self.catalog.schema_named(schema)?.oid, name)),
            [.., schema, name] => {
                let schema = self.catalog.schema_named(schema);
                schema.and_then(|schema| self.catalog.find(schema.oid, name))
            }
            [] => None,
        };
        match found {
            Some(Relation::Sequence(sequence)) => Ok(sequence),
            Some(_) => {
                let message = format!("\"{name}\" is not a sequence");
                Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            None => {
                let message = format!("relation \"{name}\" does not exist");
                Err(Error::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }
}

impl SessionSequences {
    /// Returns a sequence on which the role has one of two privileges; 42501 if it has neither.
    fn find_for(&self, name: &str, [one, other]: [Privileges; 2]) -> Result<Arc<Sequence>> {
        let sequence = self.find(name)?;
        let (catalog, acting) = (&self.catalog, self.acting);
        let may = |privilege| has(catalog, acting, sequence.owner, &sequence.grants, privilege);
        if is_superuser(catalog, acting) || may(one) || may(other) {
            return Ok(sequence);
        }
        let message = format!("permission denied for sequence {}", sequence.name);
        Err(Error::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }

    /// Returns the next number of a sequence, as all sessions see it.
    fn draw(&self, sequence: &Arc<Sequence>) -> Result<i64> {
        if let Some(number) = self.database.next_at_hand(sequence)? {
            return Ok(number);
        }
        let (database, of) = (Arc::clone(&self.database), Arc::clone(sequence));
        result_of(&self.threads, async move { database.next_value(&of).await })
    }

    fn check_writable(&self, function: &str) -> Result<()> {
        if !self.is_read_only {
            return Ok(());
        }
        let message = format!("cannot execute {function}() in a read-only transaction");
        Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
    }
}

impl Sequences for SessionSequences {
    fn next(&self, sequence: &str) -> Result<i64> {
        self.check_writable("nextval")?;
        let sequence = self.find_for(sequence, [Privileges::USAGE, Privileges::UPDATE])?;
        let number = match self.restarts.next(&sequence)? {
            Some(number) => number,
            None => self.draw(&sequence)?,
        };
        self.given.lock().note(sequence.oid, number);
        Ok(number)
    }

    fn current(&self, sequence: &str) -> Result<i64> {
        let sequence = self.find_for(sequence, [Privileges::USAGE, Privileges::SELECT])?;
        let given = self.given.lock().by_sequence.get(&sequence.oid).copied();
        given.ok_or_else(|| {
            let message = format!(
                "currval of sequence \"{}\" is not yet defined in this session",
                sequence.name
            );
            Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn last(&self) -> Result<i64> {
        let given = self.given.lock();
        let number = given.last.and_then(|last| given.by_sequence.get(&last).copied());
        number.ok_or_else(|| {
            let message = "lastval is not yet defined in this session";
            Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
        })
    }

    fn set(&self, sequence: &str, value: i64, called: bool) -> Result<i64> {
        self.check_writable("setval")?;
        let sequence = self.find_for(sequence, [Privileges::UPDATE; 2])?;
        if !self.restarts.set(&sequence, value, called)? {
            let (database, of) = (Arc::clone(&self.database), Arc::clone(&sequence));
            result_of(&self.threads, async move { database.set_value(&of, value, called).await })?;
        }
        if called {
            self.given.lock().note(sequence.oid, value);
        }
        Ok(value)
    }
}

/// Splits a name at its dots, folds its parts and takes their quotes away.
fn split(name: &str) -> Vec<String> {
    let (mut parts, mut part, mut is_quoted) = (Vec::new(), String::new(), false);
    for character in name.trim().chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(std::mem::take(&mut part)),
            other if is_quoted => part.push(other),
            other => part.push(other.to_ascii_lowercase()),
        }
    }
    parts.push(part);
    parts
}
