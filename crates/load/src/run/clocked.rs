//! A client that remembers when its last answer came, so that no latency has the verification in it.

use crate::client::{Api, Failure, NewRow, Row, Selection};
use crate::measure::Watch;
use std::time::Duration;

#[derive(Clone)]
pub(super) struct Clocked<A> {
    api: A,
    watch: Watch,
    answered: Duration,
}

impl<A: Api> Clocked<A> {
    /// Returns a client that tells times by `watch`.
    pub(super) fn new(api: A, watch: Watch) -> Self {
        Self { api, watch, answered: Duration::ZERO }
    }

    /// Returns the time at which the last call ended.
    pub(super) fn answered(&self) -> Duration {
        self.answered
    }
}

impl<A: Api> Api for Clocked<A> {
    async fn write(&mut self, row: NewRow) -> Result<(), Failure> {
        let outcome = self.api.write(row).await;
        self.answered = self.watch.elapsed();
        outcome
    }

    async fn write_many(&mut self, rows: Vec<NewRow>) -> Result<Vec<Result<(), Failure>>, Failure> {
        let outcome = self.api.write_many(rows).await;
        self.answered = self.watch.elapsed();
        outcome
    }

    async fn read(&mut self, selection: Selection) -> Result<Vec<Row>, Failure> {
        let outcome = self.api.read(selection).await;
        self.answered = self.watch.elapsed();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Rows;
    use crate::client::testing::Fake;

    #[tokio::test(start_paused = true)]
    async fn an_answer_has_the_time_at_which_it_came() {
        let ms = Duration::from_millis;
        let mut client = Clocked::new(Fake { delay: ms(100), ..Fake::default() }, Watch::start());
        let selection =
            Selection { rows: Rows::One(b"r".to_vec()), columns: None, cells_max: 1, bytes_max: 1 };
        client.read(selection).await.unwrap();
        // The verification takes its time.
        tokio::time::advance(ms(5000)).await;
        assert_eq!(client.answered(), ms(100));
        client.write(NewRow { key: b"r".to_vec(), cells: Vec::new() }).await.unwrap();
        assert_eq!(client.answered(), ms(5200));
    }
}
