//! Scans and their verification.
//!
//! Every row of an answer is verified. If row keys sort by number, the answer must also have every row
//! of this process between its first and last row that was written before the scan began.

use super::Trouble;
use super::findings::Problem;
use super::keys::Keys;
use crate::client::{Api, Row, Rows, Selection};
use crate::data::{RowKeys, Seen, Version};

impl Keys {
    /// Reads up to `limit` rows from the row of `key` on.
    pub(super) async fn scan(
        &self,
        key: u64,
        limit: u64,
        client: &mut impl Api,
    ) -> Result<u64, Trouble> {
        let start = self.row(key);
        let end = [self.identity.prefix().as_bytes(), b";"].concat();
        let cells = limit.saturating_mul(self.columns);
        let selection = Selection {
            rows: Rows::Range { start: start.clone(), end, limit },
            columns: None,
            cells_max: cells,
            bytes_max: self.bytes_max(cells),
        };
        let written = self.frontier.written();
        let floors = self.floors(key, limit);
        let rows = client.read(selection).await?;
        if rows.len() as u64 > limit {
            let detail = format!("{} rows, of which {limit} were asked for", rows.len());
            return Err(self.wrong(Problem::Unexpected, &start, detail));
        }
        let mut next = key;
        let mut before: Option<&Row> = None;
        for row in &rows {
            let ascends = before.map_or(start.as_slice(), |row| &row.key) <= &row.key[..];
            if !ascends || before.is_some_and(|before| before.key == row.key) {
                let detail = "a row out of order".to_owned();
                return Err(self.wrong(Problem::Unexpected, &row.key, detail));
            }
            before = Some(row);
            self.verify_scanned(row, key, &floors, &mut next, written)?;
        }
        let ended = (rows.len() as u64) < limit;
        if next < written && (next == key || ended && self.row_keys == RowKeys::Ordered) {
            return Err(self.missing(next));
        }
        Ok(rows.len() as u64)
    }

    /// Returns the acknowledged versions of the rows that a scan will meet, as far as row keys tell.
    fn floors(&self, key: u64, limit: u64) -> Vec<Option<Version>> {
        let keys = if self.row_keys == RowKeys::Ordered { limit } else { 1 };
        let first = self.cell(key, 0);
        let cells = keys.saturating_mul(self.columns);
        (first..first.saturating_add(cells)).map(|cell| self.versions.acked(cell)).collect()
    }

    /// Verifies one row of a scan from `key` on. `next` is the first key that was not met yet.
    fn verify_scanned(
        &self,
        row: &Row,
        key: u64,
        floors: &[Option<Version>],
        next: &mut u64,
        written: u64,
    ) -> Result<(), Trouble> {
        let number = self.row_keys.number(self.identity.prefix(), &row.key);
        let Some(global) = number else {
            let detail = "a row that nobody wrote".to_owned();
            return Err(self.wrong(Problem::Unexpected, &row.key, detail));
        };
        let Some(own) = self.share.local(global) else {
            // Another process writes this row; only its bytes are known here.
            let any = |_, seen: Version| match seen >= 0 && seen % 1000 == 0 {
                true => Seen::Good,
                false => Seen::NeverWritten,
            };
            let expected = self.expected(global, 0..self.columns);
            return expected.verify(row, any).map_err(Trouble::Wrong);
        };
        if own > *next && *next < written && (*next == key || self.row_keys == RowKeys::Ordered) {
            return Err(self.missing(*next));
        }
        if own == *next || self.row_keys == RowKeys::Ordered {
            *next = own + 1;
        }
        let first = self.cell(key, 0);
        let floor = |column: u64| {
            let at = self.cell(own, column).checked_sub(first)?;
            *floors.get(usize::try_from(at).ok()?)?
        };
        self.verify(row, own, 0..self.columns, floor)
    }

    fn missing(&self, key: u64) -> Trouble {
        let detail = "the row was acknowledged and a scan left it out".to_owned();
        self.wrong(Problem::MissingRow, &self.row(key), detail)
    }

    fn wrong(&self, problem: Problem, row: &[u8], detail: String) -> Trouble {
        Trouble::Wrong(self.findings.report(problem, row, detail))
    }
}
