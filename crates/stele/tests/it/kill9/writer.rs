//! One writer: it owns rows that no other writes, has one request in flight, and so knows what
//! each of its rows must hold. Invariants that `check` holds the server to:
//!
//! 1. A row is exactly what its last acknowledged write made it, or what a later one that was in
//!    flight at a kill would have made it: all cells of a write, or none.
//! 2. Rows of the `kept` family are written once and never deleted; none is ever missing.
//! 3. Its own counter and its own sum are at the number of acknowledged increments, one more at
//!    most if one was in flight at the kill.

use super::counters::Counters;
use super::wire::{Cells, Client, add_one, delete_row, integer, set};
use base::env::Rng;
use bytes::Bytes;
use googleapis_tonic_google_bigtable_v2::google::bigtable::v2::Mutation;
use std::collections::BTreeMap;
use tonic::Status;

/// Rows that are written and deleted over and over.
const ROWS: usize = 48;
const BATCH_ROWS: usize = 8;
/// Kept cells in one row.
const KEPT_PER_ROW: u64 = 50;
const COLUMNS: [(&str, &str); 4] = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z")];

/// What a row holds: nothing, or the cells of the write of this number.
type State = Option<u64>;

pub(crate) struct Writer {
    id: u64,
    rng: Rng,
    /// The number of the last write, acknowledged or not.
    last: u64,
    rows: [State; ROWS],
    /// What writes in flight at the kill would have made of rows.
    rows_in_doubt: BTreeMap<usize, State>,
    /// Kept cells acknowledged, in order, and one in flight at the kill.
    kept: u64,
    kept_in_doubt: bool,
    /// Kept cells up to here were checked after they were written.
    kept_checked: u64,
    count: Tally,
    sum: Tally,
    /// Totals over all cycles so far.
    pub(crate) acknowledged: u64,
    pub(crate) doubts: u64,
    pub(crate) doubts_applied: u64,
}

/// Increments acknowledged, and whether one was in flight at the kill.
#[derive(Default)]
struct Tally {
    acknowledged: u64,
    in_doubt: bool,
}

impl Writer {
    pub(crate) fn new(id: u64, seed: u64) -> Self {
        Self {
            id,
            rng: Rng::new(seed),
            last: 0,
            rows: [None; ROWS],
            rows_in_doubt: BTreeMap::new(),
            kept: 0,
            kept_in_doubt: false,
            kept_checked: 0,
            count: Tally::default(),
            sum: Tally::default(),
            acknowledged: 0,
            doubts: 0,
            doubts_applied: 0,
        }
    }

    /// Writes until a request fails, which it gives.
    pub(crate) async fn write_until_error(
        &mut self,
        client: &mut Client,
        counters: &Counters,
    ) -> Status {
        loop {
            let done = match self.rng.below(100) {
                0..35 => self.write_row(client).await,
                35..45 => self.delete(client).await,
                45..60 => self.write_batch(client).await,
                60..70 => self.check_and_write(client).await,
                70..80 => self.keep(client).await,
                80..86 => self.increment(client).await,
                86..93 => self.add(client).await,
                _ => counters.increment(client, self.rng.next_u64()).await,
            };
            if let Err(error) = done {
                self.doubts += 1;
                return error;
            }
            self.acknowledged += 1;
        }
    }

    fn key(&self, row: usize) -> String {
        format!("w{}-{row:02}", self.id)
    }

    fn any_row(&mut self) -> usize {
        self.rng.index(ROWS)
    }

    /// Returns distinct rows for a batch.
    fn some_rows(&mut self) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..ROWS).collect();
        for at in 0..BATCH_ROWS {
            rows.swap(at, at + self.rng.index(ROWS - at));
        }
        rows.truncate(BATCH_ROWS);
        rows
    }

    /// The mutations of a new write, and its number. Half of them begin by deleting the row.
    fn new_write(&mut self) -> (u64, Vec<Mutation>) {
        self.last += 1;
        let mut mutations = Vec::new();
        if self.rng.chance(50) {
            mutations.push(delete_row());
        }
        let number = self.last;
        mutations.extend(COLUMNS.map(|(family, column)| set(family, column, value(number))));
        (number, mutations)
    }

    /// Notes that `row` is as `state` says, or may be.
    fn note(&mut self, row: usize, state: State, acknowledged: bool) {
        if acknowledged {
            self.rows[row] = state;
        } else {
            self.rows_in_doubt.insert(row, state);
        }
    }

    async fn write_row(&mut self, client: &mut Client) -> Result<(), Status> {
        let row = self.any_row();
        let (number, mutations) = self.new_write();
        let done = client.mutate_row(&self.key(row), mutations).await;
        self.note(row, Some(number), done.is_ok());
        done
    }

    async fn delete(&mut self, client: &mut Client) -> Result<(), Status> {
        let row = self.any_row();
        let done = client.mutate_row(&self.key(row), vec![delete_row()]).await;
        self.note(row, None, done.is_ok());
        done
    }

    async fn write_batch(&mut self, client: &mut Client) -> Result<(), Status> {
        let rows = self.some_rows();
        let mut numbers = Vec::new();
        let mut entries = Vec::new();
        for &row in &rows {
            let (number, mutations) = self.new_write();
            numbers.push(number);
            entries.push((self.key(row), mutations));
        }
        let (acknowledged, done) = client.mutate_rows(entries).await;
        for (index, (row, number)) in rows.into_iter().zip(numbers).enumerate() {
            let is_acknowledged = acknowledged.contains(&index);
            assert!(is_acknowledged || done.is_err(), "entry {index} was not answered");
            self.note(row, Some(number), is_acknowledged);
        }
        done
    }

    async fn check_and_write(&mut self, client: &mut Client) -> Result<(), Status> {
        let row = self.any_row();
        let (number, mutations) = self.new_write();
        let key = self.key(row);
        match client.mutate_if_present(&key, mutations, vec![delete_row()]).await {
            Ok(present) => {
                assert_eq!(present, self.rows[row].is_some(), "whether {key} is there");
                self.note(row, present.then_some(number), true);
                Ok(())
            }
            Err(error) => {
                let state = self.rows[row].map(|_| number);
                self.note(row, state, false);
                Err(error)
            }
        }
    }

    async fn keep(&mut self, client: &mut Client) -> Result<(), Status> {
        let (row, column) = self.kept_place(self.kept);
        let done = client.mutate_row(&row, vec![set("kept", &column, value(self.kept))]).await;
        match &done {
            Ok(()) => self.kept += 1,
            Err(_) => self.kept_in_doubt = true,
        }
        done
    }

    fn kept_place(&self, number: u64) -> (String, String) {
        (
            format!("k{}-{:06}", self.id, number / KEPT_PER_ROW),
            format!("{:02}", number % KEPT_PER_ROW),
        )
    }

    async fn increment(&mut self, client: &mut Client) -> Result<(), Status> {
        let row = format!("n{}", self.id);
        match client.increment(&row).await {
            Ok(value) => {
                self.count.acknowledged += 1;
                assert_eq!(value, self.count.acknowledged, "the counter {row}");
                Ok(())
            }
            Err(error) => {
                self.count.in_doubt = true;
                Err(error)
            }
        }
    }

    async fn add(&mut self, client: &mut Client) -> Result<(), Status> {
        let done = client.mutate_row(&format!("n{}", self.id), vec![add_one()]).await;
        match &done {
            Ok(()) => self.sum.acknowledged += 1,
            Err(_) => self.sum.in_doubt = true,
        }
        done
    }

    /// Reads what it wrote back, all of it or what changed, and settles what was in doubt.
    pub(crate) async fn check(&mut self, client: &mut Client, all: bool) {
        self.check_rows(&client.read(&format!("w{}-", self.id)).await);
        self.check_kept(client, all).await;
        let rows = client.read(&format!("n{}", self.id)).await;
        let of = |family: &str| {
            let cells = rows.values().next()?.get(&(family.to_owned(), "n".to_owned()))?;
            assert_eq!(cells.len(), 1, "versions of {family}");
            Some(integer(&cells[0]))
        };
        let settled = [
            self.count.settle(of("count").unwrap_or_default(), "counter"),
            self.sum.settle(of("sum").unwrap_or_default(), "sum"),
        ];
        self.doubts_applied += settled.iter().map(|&applied| u64::from(applied)).sum::<u64>();
    }

    fn check_rows(&mut self, found: &BTreeMap<String, Cells>) {
        let mut expected_rows = 0;
        for row in 0..ROWS {
            let key = self.key(row);
            let state = found.get(&key).map(|cells| whole_row(&key, cells));
            let in_doubt = self.rows_in_doubt.remove(&row);
            if state != self.rows[row] {
                let acknowledged = self.rows[row];
                assert_eq!(Some(state), in_doubt, "row {key}; acknowledged: {acknowledged:?}");
                self.rows[row] = state;
                self.doubts_applied += 1;
            }
            expected_rows += usize::from(state.is_some());
        }
        assert_eq!(found.len(), expected_rows, "rows that nobody wrote");
    }

    async fn check_kept(&mut self, client: &mut Client, all: bool) {
        if self.kept_in_doubt {
            let (row, column) = self.kept_place(self.kept);
            let rows = client.read(&row).await;
            let cells = rows.get(&row);
            let applied = cells.is_some_and(|row| row.contains_key(&("kept".into(), column)));
            self.kept += u64::from(applied);
            self.doubts_applied += u64::from(applied);
            self.kept_in_doubt = false;
        }
        let first = if all { 0 } else { self.kept_checked };
        for block in first / KEPT_PER_ROW..self.kept.div_ceil(KEPT_PER_ROW) {
            let (row, _) = self.kept_place(block * KEPT_PER_ROW);
            let rows = client.read(&row).await;
            let count = (self.kept - block * KEPT_PER_ROW).min(KEPT_PER_ROW);
            let numbers = block * KEPT_PER_ROW..block * KEPT_PER_ROW + count;
            let want: Cells = numbers
                .map(|number| (("kept".into(), self.kept_place(number).1), vec![value(number)]))
                .collect();
            assert!(rows.get(&row) == Some(&want), "row {row} is not its {count} kept cells");
        }
        self.kept_checked = self.kept;
    }
}

impl Tally {
    /// Takes over what was found; whether it shows the increment that was in flight.
    fn settle(&mut self, found: u64, what: &str) -> bool {
        let (least, in_doubt) = (self.acknowledged, u64::from(self.in_doubt));
        assert!((least..=least + in_doubt).contains(&found), "{what}: {found}, not {least}");
        *self = Self { acknowledged: found, in_doubt: false };
        found > least
    }
}

/// The number of the write that made the row; it must have made all of it.
fn whole_row(key: &str, cells: &Cells) -> u64 {
    let first = cells.values().next().expect("a row has cells");
    let digits = std::str::from_utf8(&first[0][..8]).expect("values begin with their number");
    let number: u64 = digits.parse().expect("values begin with their number");
    let columns = COLUMNS.map(|(family, column)| (family.to_owned(), column.to_owned()));
    let want: Cells = columns.map(|column| (column, vec![value(number)])).into();
    assert!(*cells == want, "row {key} is not whole: {:?}", cells.keys());
    number
}

/// The value of a write: its number, and filling of 0 to 1,499 bytes that follows from it.
fn value(number: u64) -> Bytes {
    let filling = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 1_500;
    let mut rng = Rng::new(number);
    let mut value = format!("{number:08}").into_bytes();
    value.resize(value.len() + filling as usize, 0);
    rng.fill(&mut value[8..]);
    value.into()
}
