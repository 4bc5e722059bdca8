//! Compares the records of client programs with all that the programs read later.
//!
//! A session writes a line at each step of a transfer:
//!
//! | line | when |
//! |---|---|
//! | `begin N DEBIT CREDIT AMOUNT` | before COMMIT is sent |
//! | `done N` | after COMMIT was acknowledged |
//! | `refused N` | after an error of the server rolled the transaction back |
//! | `found N`, `missing N` | in the next round, after a look for a transfer that was begun and has no answer |
//!
//! 1. A transfer that was acknowledged or found is there. A refused or missing one is not. Another one that was
//!    begun is there or not.
//! 2. A transfer that is there is whole: its row of the ledger, both changes of balances, and the entries of both
//!    indexes. Nothing else is there.
//! 3. An earlier reading still holds: its rows are there as they were, and a transfer that it has not is there
//!    only if it was begun again.

use std::collections::BTreeMap;
use std::path::Path;

/// The number of a session, and of a transfer of the session.
type Id = (u64, u64);

/// Money that moves from one account to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    debit: u64,
    credit: u64,
    amount: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin(Transfer),
    Done,
    Refused,
    Found,
    Missing,
}

/// The steps of all sessions, each with the number of its transfer.
#[derive(Default)]
pub(super) struct Records(BTreeMap<u64, Vec<(u64, Step)>>);

impl Records {
    /// Reads the records of the sessions 1 to `sessions` in `dir`. A line that is not ended yet does not count.
    pub(super) fn load(dir: &Path, sessions: u64) -> Self {
        let mut records = Self::default();
        for session in 1..=sessions {
            let path = dir.join(format!("record-{session}"));
            records.add(session, &std::fs::read_to_string(path).unwrap_or_default());
        }
        records
    }

    fn add(&mut self, session: u64, text: &str) {
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        self.0.insert(session, lines.map(step).collect());
    }

    /// Returns the acknowledged transfers of each session.
    pub(super) fn acknowledged(&self) -> Vec<usize> {
        let done =
            |steps: &Vec<(u64, Step)>| steps.iter().filter(|(_, step)| *step == Step::Done).count();
        self.0.values().map(done).collect()
    }

    /// Returns the number of the last transfer of each session, or 0.
    pub(super) fn last(&self) -> Vec<u64> {
        self.0.values().map(|steps| steps.last().map_or(0, |(number, _)| *number)).collect()
    }

    /// Returns how often transfers were begun and got no answer, and how often the server refused one.
    pub(super) fn unanswered_and_refused(&self) -> (usize, usize) {
        let (mut unanswered, mut refused) = (0, 0);
        for steps in self.0.values() {
            for (at, (_, step)) in steps.iter().enumerate() {
                let answer = steps.get(at + 1).map(|(_, step)| step);
                let begun = matches!(step, Step::Begin(_));
                unanswered +=
                    usize::from(begun && !matches!(answer, Some(Step::Done | Step::Refused)));
                refused += usize::from(*step == Step::Refused);
            }
        }
        (unanswered, refused)
    }

    /// Returns the steps that a session made after `earlier`.
    fn since(&self, earlier: &Self, session: u64) -> &[(u64, Step)] {
        let before = earlier.0.get(&session).map_or(0, Vec::len);
        self.0.get(&session).map_or(&[], |steps| &steps[before..])
    }
}

/// Returns the step that a line tells, and the number of its transfer.
fn step(line: &str) -> (u64, Step) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let step = match words[..] {
        ["begin", _, debit, credit, amount] => Step::Begin(transfer([debit, credit, amount])),
        ["done", _] => Step::Done,
        ["refused", _] => Step::Refused,
        ["found", _] => Step::Found,
        ["missing", _] => Step::Missing,
        _ => panic!("a record has the line {line:?}"),
    };
    (number(words[1]), step)
}

fn transfer([debit, credit, amount]: [&str; 3]) -> Transfer {
    Transfer { debit: number(debit), credit: number(credit), amount: number(amount) as i64 }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or_else(|error| panic!("{word:?}: {error}"))
}

/// All that a program read: balance and number of changes of each account, and the ledger as a scan and
/// as both indexes tell it.
#[derive(Default)]
pub(super) struct Reading {
    accounts: BTreeMap<u64, (i64, u64)>,
    ledger: BTreeMap<Id, Transfer>,
    faults: Vec<String>,
}

impl Reading {
    /// Reads the lines `account ID BALANCE CHANGES`, and `row`, `debit` and `token` with a row of the ledger
    /// after each word: as a scan, an index and a unique index give it.
    pub(super) fn parse(text: &str) -> Self {
        let mut reading = Self::default();
        let mut indexes = [BTreeMap::new(), BTreeMap::new()];
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let known = match words[..] {
                ["account", id, balance, changes] => {
                    let state = (balance.parse().unwrap(), number(changes));
                    reading.accounts.insert(number(id), state).is_some()
                }
                [source, session, of, debit, credit, amount, token] => {
                    let id = (number(session), number(of));
                    if token != format!("{session}-{of}") {
                        reading.faults.push(format!("a row has the token of another one: {line}"));
                    }
                    let rows = match source {
                        "row" => &mut reading.ledger,
                        "debit" => &mut indexes[0],
                        "token" => &mut indexes[1],
                        _ => panic!("a reading has the line {line:?}"),
                    };
                    rows.insert(id, transfer([debit, credit, amount])).is_some()
                }
                _ => panic!("a reading has the line {line:?}"),
            };
            if known {
                reading.faults.push(format!("a row is there twice: {line}"));
            }
        }
        for (index, rows) in ["debit", "token"].into_iter().zip(&indexes) {
            if *rows != reading.ledger {
                let scan = &reading.ledger;
                reading.faults.push(format!("index of {index} and scan: {rows:?} and {scan:?}"));
            }
        }
        reading
    }

    /// Returns the number of rows in the ledger.
    pub(super) fn rows(&self) -> usize {
        self.ledger.len()
    }

    /// Returns what is wrong with the balances of `accounts` accounts, all of which had `balance` at the start.
    fn wrong_balances(&self, accounts: u64, balance: i64) -> Option<String> {
        let mut right: BTreeMap<u64, (i64, u64)> =
            (1..=accounts).map(|id| (id, (balance, 0))).collect();
        for Transfer { debit, credit, amount } in self.ledger.values() {
            for (account, change) in [(debit, -amount), (credit, *amount)] {
                let (balance, changes) = right.entry(*account).or_default();
                *balance += change;
                *changes += 1;
            }
        }
        let found = &self.accounts;
        (*found != right).then(|| format!("balances are {found:?}, and {right:?} by the ledger"))
    }
}

/// The accounts at the start.
pub(super) struct Bank {
    pub(super) accounts: u64,
    pub(super) balance: i64,
}

impl Bank {
    /// Returns all that is wrong after a round. `earlier` are the records and the reading of the round before.
    pub(super) fn faults(
        &self,
        earlier: (&Records, &Reading),
        (records, reading): (&Records, &Reading),
    ) -> Vec<String> {
        let mut faults = reading.faults.clone();
        faults.extend(reading.wrong_balances(self.accounts, self.balance));
        for (id, row) in &earlier.1.ledger {
            if reading.ledger.get(id) != Some(row) {
                faults.push(format!("{id:?} was there as {row:?} in an earlier reading"));
            }
        }
        for (session, steps) in &records.0 {
            faults.extend(wrong_steps(*session, steps, reading));
        }
        for (id, row) in &reading.ledger {
            let new = !earlier.1.ledger.contains_key(id);
            let begun = (id.1, Step::Begin(*row));
            if new && !records.since(earlier.0, id.0).contains(&begun) {
                faults.push(format!("{id:?} is there as {row:?} and was not begun in this round"));
            }
        }
        for session in records.0.keys() {
            for (number, step) in records.since(earlier.0, *session) {
                let there = earlier.1.ledger.contains_key(&(*session, *number));
                if matches!((step, there), (Step::Found, false) | (Step::Missing, true)) {
                    let told = if there { "was there" } else { "was not there" };
                    faults.push(format!(
                        "({session}, {number}) {told}, and its session saw {step:?}"
                    ));
                }
            }
        }
        faults
    }
}

/// Returns each transfer of a session whose last step does not agree with what was read, and each number
/// that the session left out.
fn wrong_steps(session: u64, steps: &[(u64, Step)], reading: &Reading) -> Vec<String> {
    let mut faults = Vec::new();
    let mut transfers: BTreeMap<u64, (Option<Transfer>, Step)> = BTreeMap::new();
    for &(number, step) in steps {
        let last = transfers.last_key_value().map_or(0, |(last, _)| *last);
        if number != last && number != last + 1 {
            faults.push(format!("({session}, {number}) follows number {last}"));
        }
        let begun = transfers.get(&number).and_then(|(begun, _)| *begun);
        let begun = if let Step::Begin(transfer) = step { Some(transfer) } else { begun };
        transfers.insert(number, (begun, step));
    }
    for (number, (begun, last)) in transfers {
        let there = reading.ledger.get(&(session, number)).copied();
        let right = match last {
            Step::Done | Step::Found => there.is_some() && there == begun,
            Step::Refused | Step::Missing => there.is_none(),
            Step::Begin(_) => there.is_none() || there == begun,
        };
        if !right {
            faults.push(format!(
                "({session}, {number}) begun as {begun:?}, last {last:?}: {there:?}"
            ));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANK: Bank = Bank { accounts: 3, balance: 100 };
    /// The records of two sessions after the first round, and what the second round adds.
    const RECORDS: [[&str; 2]; 2] = [
        [
            "begin 1 1 2 10\ndone 1\nrefused 2\nbegin 3 2 3 5\n",
            "missing 3\nbegin 3 2 3 5\nrefused 3\nbegin 3 2 3 5\ndone 3\nbegin 4 1 3 2\n",
        ],
        ["begin 1 3 1 7\n", "found 1\nbegin 2 1 2 4\ndone 2\nbegin 3 1 2 9\n"],
    ];
    /// Rows of the ledger after each round.
    const ROWS: [&[[u64; 5]]; 2] = [
        &[[1, 1, 1, 2, 10], [2, 1, 3, 1, 7]],
        &[[1, 1, 1, 2, 10], [1, 3, 2, 3, 5], [2, 1, 3, 1, 7], [2, 2, 1, 2, 4], [2, 3, 1, 2, 9]],
    ];

    fn records(texts: [&str; 2]) -> Records {
        let mut records = Records::default();
        records.add(1, texts[0]);
        records.add(2, texts[1]);
        records
    }

    /// Returns the lines of a reading in which all agrees with these rows.
    fn reading(rows: &[[u64; 5]]) -> String {
        let (mut text, mut accounts) = (String::new(), [(100, 0); 3]);
        for &[session, number, debit, credit, amount] in rows {
            for source in ["row", "debit", "token"] {
                let row =
                    format!("{session} {number} {debit} {credit} {amount} {session}-{number}");
                text += &format!("{source} {row}\n");
            }
            for (account, change) in [(debit, -(amount as i64)), (credit, amount as i64)] {
                let (balance, changes) = &mut accounts[account as usize - 1];
                *balance += change;
                *changes += 1;
            }
        }
        for (at, (balance, changes)) in accounts.into_iter().enumerate() {
            text += &format!("account {} {balance} {changes}\n", at + 1);
        }
        text
    }

    /// Returns the faults of the second round with the records and the reading of the arguments.
    fn faults(second: [&str; 2], read: &str) -> Vec<String> {
        let first = records(RECORDS.map(|[first, _]| first));
        let whole: Vec<String> = RECORDS
            .iter()
            .zip(second)
            .map(|([first, _], second)| format!("{first}{second}"))
            .collect();
        let earlier = Reading::parse(&reading(ROWS[0]));
        assert_eq!(
            BANK.faults((&Records::default(), &Reading::default()), (&first, &earlier)),
            Vec::<String>::new()
        );
        let second = records([&whole[0], &whole[1]]);
        BANK.faults((&first, &earlier), (&second, &Reading::parse(read)))
    }

    #[test]
    fn what_was_told_and_what_is_there_agree() {
        let second = RECORDS.map(|[_, second]| second);
        // The last transfer of session 2 has no answer: both outcomes are right.
        for there in [ROWS[1], &ROWS[1][..4]] {
            assert_eq!(faults(second, &reading(there)), Vec::<String>::new());
        }
    }

    #[test]
    fn planted_faults_of_the_server_are_noticed() {
        let second = RECORDS.map(|[_, second]| second);
        let right = reading(ROWS[1]);
        let with = |row| reading(&[ROWS[1], &[row]].concat());
        let without = |left: usize| {
            let keep = |at: &usize| *at != left;
            reading(&(0..5).filter(keep).map(|at| ROWS[1][at]).collect::<Vec<_>>())
        };
        for (case, read, told) in [
            ("an acknowledged transfer is lost", without(3), "(2, 2) begun as"),
            ("a transfer that was there is gone", without(2), "in an earlier reading"),
            (
                "a balance did not change",
                right.replace("account 1 84 4", "account 1 93 4"),
                "balances",
            ),
            (
                "a change is there without its row",
                right.replace("account 1 84 4", "account 1 84 5"),
                "balances",
            ),
            ("an account is gone", right.replace("account 1 84 4\n", ""), "balances"),
            ("a refused transfer is there", with([1, 2, 1, 2, 3]), "(1, 2) begun as"),
            ("a transfer comes from nowhere", with([2, 9, 1, 2, 3]), "(2, 9) is there"),
            ("a session comes from nowhere", with([7, 1, 1, 2, 3]), "(7, 1) is there"),
            ("an index lacks a row", right.replace("debit 1 3 2 3 5 1-3\n", ""), "index of debit"),
            (
                "a unique index lacks a row",
                right.replace("token 1 3 2 3 5 1-3\n", ""),
                "index of token",
            ),
            ("an index has more", right.clone() + "debit 1 4 1 3 2 1-4\n", "index of debit"),
            ("a row is there twice", right.clone() + "row 1 3 2 3 5 1-3\n", "twice"),
            (
                "a token is wrong",
                right.replace("1 3 2 3 5 1-3", "1 3 2 3 5 1-4"),
                "token of another",
            ),
        ] {
            let faults = faults(second, &read);
            assert!(faults.iter().any(|fault| fault.contains(told)), "{case}: {faults:?}");
        }
    }

    #[test]
    fn planted_contradictions_of_a_record_are_noticed() {
        let [[_, one], [_, two]] = RECORDS;
        for (case, second, told) in [
            (
                "a transfer was begun as another one",
                [one, &two.replace("2 1 2 4", "2 1 2 5")],
                "(2, 2) begun as",
            ),
            ("a transfer was undone and comes late", ["", two], "(1, 3) is there"),
            (
                "a session does not see its transfer",
                [one, &two.replace("found", "missing")],
                "saw Missing",
            ),
            (
                "a session sees more than was there",
                [&one.replacen("missing", "found", 1), two],
                "saw Found",
            ),
            (
                "a session leaves a number out",
                [one, "found 1\nbegin 3 1 2 9\n"],
                "follows number 1",
            ),
        ] {
            let faults = faults(second, &reading(ROWS[1]));
            assert!(faults.iter().any(|fault| fault.contains(told)), "{case}: {faults:?}");
        }
    }

    #[test]
    fn a_line_without_its_end_does_not_count() {
        let records = records(["begin 1 1 2 10\ndone 1\nbegin 2 1 2 3\ndone ", ""]);
        assert_eq!((records.acknowledged(), records.last()), (vec![1, 0], vec![2, 0]));
        assert_eq!(records.unanswered_and_refused(), (1, 0));
    }
}
