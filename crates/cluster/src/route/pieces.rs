//! Rows on their way into the row output of a front: from this node's tables, which are lent the output,
//! or from the frames of another node.

use table::{RowOutput, RowPiece, YieldedCell};
use tokio::sync::oneshot;

/// A row output that goes back to its owner when its borrower drops it.
pub(super) struct Lent<S: RowOutput> {
    /// Taken when it is dropped, and never before.
    output: Option<S>,
    back: Option<oneshot::Sender<S>>,
}

impl<S: RowOutput> Lent<S> {
    /// Lends `output`; the receiver gets it back.
    pub(super) fn new(output: S) -> (Self, oneshot::Receiver<S>) {
        let (back, owner) = oneshot::channel();
        (Self { output: Some(output), back: Some(back) }, owner)
    }

    fn output(&mut self) -> &mut S {
        self.output.as_mut().expect("an output is there until it is dropped")
    }
}

impl<S: RowOutput> Drop for Lent<S> {
    fn drop(&mut self) {
        if let (Some(output), Some(back)) = (self.output.take(), self.back.take()) {
            // An owner that is gone wants nothing back.
            let _ = back.send(output);
        }
    }
}

impl<S: RowOutput> RowOutput for Lent<S> {
    type Batch = S::Batch;

    fn start(&mut self, key: &[u8]) {
        self.output().start(key);
    }

    fn cell(&mut self, cell: &YieldedCell<'_>) {
        self.output().cell(cell);
    }

    fn end(&mut self) {
        self.output().end();
    }

    fn forget(&mut self) {
        self.output().forget();
    }

    fn scanned(&mut self, key: &[u8]) {
        self.output().scanned(key);
    }

    fn take(&mut self) -> S::Batch {
        self.output().take()
    }

    fn batch_bytes_max(&self) -> usize {
        self.output.as_ref().map_or(usize::MAX, RowOutput::batch_bytes_max)
    }
}

/// The place in a row up to which pieces came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Within {
    /// Between two rows, or at either end.
    #[default]
    Nothing,
    /// In a row that has no cell yet.
    Begun,
    /// In a row with cells.
    Row,
}

impl Within {
    /// Gives a piece to an output. False, and nothing is given, for a piece that cannot come here.
    pub(super) fn give(&mut self, piece: &RowPiece, output: &mut impl RowOutput) -> bool {
        *self = match (*self, piece) {
            (Self::Nothing, RowPiece::Start(key)) => {
                output.start(key);
                Self::Begun
            }
            (Self::Begun | Self::Row, RowPiece::Cell(cell)) => {
                output.cell(&YieldedCell {
                    family: &cell.family,
                    qualifier: &cell.qualifier,
                    timestamp: cell.timestamp,
                    value: &cell.value,
                    label: cell.label.as_ref(),
                });
                Self::Row
            }
            (Self::Row, RowPiece::End) => {
                output.end();
                Self::Nothing
            }
            (Self::Nothing, RowPiece::Scanned(key)) => {
                output.scanned(key);
                Self::Nothing
            }
            _ => return false,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use table::{Bytes, Cell, Pieces, Timestamp};

    #[test]
    fn pieces_that_are_out_of_order_are_refused() {
        let start = || RowPiece::Start(Bytes::from_static(b"r"));
        let scanned = || RowPiece::Scanned(Bytes::from_static(b"s"));
        let cell = || {
            RowPiece::Cell(Cell {
                family: "f".into(),
                qualifier: Bytes::new(),
                timestamp: Timestamp(1),
                value: Bytes::new(),
                label: None,
            })
        };
        for (case, pieces, good) in [
            ("two rows", vec![start(), cell(), RowPiece::End, start(), cell(), RowPiece::End], 6),
            ("scanned between rows", vec![scanned(), start(), cell()], 3),
            ("cell outside", vec![cell()], 0),
            ("end outside", vec![RowPiece::End], 0),
            ("row without cells", vec![start(), RowPiece::End], 1),
            ("row in a row", vec![start(), cell(), start()], 2),
            ("scanned in a row", vec![start(), scanned()], 1),
        ] {
            let (mut within, mut output) = (Within::default(), Pieces::default());
            let given = pieces.iter().take_while(|piece| within.give(piece, &mut output)).count();
            assert_eq!(given, good, "{case}");
            assert_eq!(output.take(), pieces[..good], "{case}");
        }
    }

    #[test]
    fn an_output_comes_back_with_what_it_has() {
        let (mut lent, mut back) = Lent::new(Pieces::default());
        lent.scanned(b"r");
        assert!(back.try_recv().is_err());
        drop(lent);
        let mut output = back.try_recv().unwrap();
        assert_eq!(output.take(), [RowPiece::Scanned(Bytes::from_static(b"r"))]);
    }
}
