//! What a repair could not save, and what it did.

use crate::cell::TreeId;
use crate::request::RowRange;
use std::fmt;
use std::path::PathBuf;

/// What may be missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// Entries of these rows of a tree: cells may be missing, and what newer entries had
    /// overwritten or deleted may be there again.
    Rows {
        /// The tree; `None` if not even that is known.
        tree: Option<TreeId>,
        /// The rows.
        rows: RowRange,
    },
    /// Batches of the commit log with these numbers.
    Batches {
        /// The first sequence number that is missing.
        from: u64,
        /// The last, if anything comes after it.
        to: Option<u64>,
        /// The trees that may have had some of them.
        trees: Vec<TreeId>,
    },
}

/// A loss, with the file that it is due to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The damaged or missing file.
    pub file: PathBuf,
    /// Where in it the damage begins, in bytes from its start.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
    /// What may be missing.
    pub lost: Lost,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}; lost: ", self.file.display(), self.offset, self.reason)?;
        match &self.lost {
            Lost::Rows { tree, rows } => {
                match tree {
                    Some(tree) => write!(f, "tree {}, ", tree.0)?,
                    None => write!(f, "an unknown tree, ")?,
                }
                write!(f, "rows from '{}' ", rows.start.escape_ascii())?;
                match &rows.end {
                    Some(end) => write!(f, "to before '{}'", end.escape_ascii()),
                    None => write!(f, "to the last"),
                }
            }
            Lost::Batches { from, to, trees } => {
                write!(f, "writes #{from} ")?;
                match to {
                    Some(to) => write!(f, "to #{to}")?,
                    None => write!(f, "and after")?,
                }
                let trees: Vec<String> = trees.iter().map(|tree| tree.0.to_string()).collect();
                write!(f, " of trees {}", trees.join(", "))
            }
        }
    }
}

/// The outcome of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// What may be missing from the new directory; empty if nothing is.
    pub losses: Vec<Loss>,
    /// Damage that cost nothing, and what was decided without certainty.
    pub notes: Vec<String>,
    /// The manifest could not be used: trees and files were found by what the files say.
    pub rebuilt: bool,
    /// Trees in the new directory.
    pub trees: u64,
    /// SSTables that were copied as they are.
    pub copied: u64,
    /// SSTables of which what verifies was written anew.
    pub rewritten: u64,
    /// Entries in all SSTables of the new directory.
    pub entries: u64,
    /// Batches taken over from the commit log.
    pub log_batches: u64,
}

impl RepairReport {
    /// Returns whether the new directory holds all that the old one held, with certainty.
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty() && !self.rebuilt
    }
}
