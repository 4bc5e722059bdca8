//! Text that was decoded: views of 16 bytes into buffers, as Arrow's view arrays have them.
//!
//! 1. Views and buffers are made only here, of offsets that were checked, so each view lies in its buffer.
//! 2. If `utf8`, each value was checked to be UTF-8. [`Text::of`] is the only way to make it true.
//!
//! Arrow's own checks look at each value by itself, which takes longer than to decode it. So arrays
//! are made without them, which is what `unsafe` here is for.

#![allow(unsafe_code)]

use crate::Error;
use arrow_array::builder::make_view;
use arrow_array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use std::sync::Arc;

/// Longest value that lies in its view, as Arrow has it.
const MAX_INLINE_VIEW_LEN: usize = 12;

/// Values of text, each a view.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    views: ScalarBuffer<u128>,
    buffers: Vec<Buffer>,
    utf8: bool,
}

impl Text {
    /// Returns the values that lie one after the other in a buffer and end at `ends`. Damage, at
    /// `offset`, if an end is before another one or behind the buffer, or if `utf8` is asked for and a
    /// value is not.
    pub(crate) fn of(
        data: Buffer,
        ends: impl ExactSizeIterator<Item = u32>,
        utf8: bool,
        offset: usize,
    ) -> Result<Self, Error> {
        let bytes = &data[..];
        let ascii = !utf8 || bytes.is_ascii();
        let whole = if ascii { "" } else { as_utf8(bytes, offset)? };
        let mut views = Vec::with_capacity(ends.len());
        let (mut start, mut longest) = (0u32, 0);
        for end in ends {
            let Some(value) = bytes.get(start as usize..end as usize) else {
                return Err(Error::corrupt("offsets of text", offset));
            };
            if !ascii && !whole.is_char_boundary(end as usize) {
                return Err(Error::corrupt("text that is not UTF-8", offset));
            }
            longest = longest.max(value.len());
            views.push(make_view(value, 0, start));
            start = end;
        }
        Ok(Self { views: views.into(), buffers: buffers(&data, longest), utf8 })
    }

    /// Returns values at `spans` of a buffer, each checked by itself. Errors as [`Self::of`].
    pub(crate) fn at(
        data: &Buffer,
        spans: impl ExactSizeIterator<Item = (u32, u32)>,
        utf8: bool,
        offset: usize,
    ) -> Result<Self, Error> {
        let mut views = Vec::with_capacity(spans.len());
        let mut longest = 0;
        for (start, end) in spans {
            let Some(value) = data.get(start as usize..end as usize) else {
                return Err(Error::corrupt("offsets of text", offset));
            };
            if utf8 {
                as_utf8(value, offset)?;
            }
            longest = longest.max(value.len());
            views.push(make_view(value, 0, start));
        }
        Ok(Self { views: views.into(), buffers: buffers(data, longest), utf8 })
    }

    pub(crate) fn len(&self) -> usize {
        self.views.len()
    }

    /// Returns the values at some rows, each of which must be in this text.
    pub(crate) fn gather(&self, rows: impl ExactSizeIterator<Item = usize>) -> Self {
        let views = rows.map(|row| self.views[row]).collect();
        Self { views, buffers: self.buffers.clone(), utf8: self.utf8 }
    }

    /// Returns each value as often as `lengths` says, `count` in all.
    pub(crate) fn repeat(&self, lengths: &[i32], count: usize) -> Self {
        let views = super::repeat(&self.views, lengths, count);
        Self { views: views.into(), buffers: self.buffers.clone(), utf8: self.utf8 }
    }

    /// Returns the values as an array: of strings if they are UTF-8, else of bytes. `nulls` must be as many.
    pub(crate) fn into_array(self, nulls: Option<NullBuffer>) -> ArrayRef {
        assert!(nulls.as_ref().is_none_or(|nulls| nulls.len() == self.views.len()));
        let Self { views, buffers, utf8 } = self;
        if utf8 {
            // SAFETY: invariants 1 and 2 are what the checks left out would find; the nulls were counted.
            Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
        } else {
            // SAFETY: invariant 1; the nulls were counted.
            Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
        }
    }
}

/// Returns the buffers of views; none if all values are in their views, so that no page is kept for them.
fn buffers(data: &Buffer, longest: usize) -> Vec<Buffer> {
    if longest > MAX_INLINE_VIEW_LEN { vec![data.clone()] } else { Vec::new() }
}

fn as_utf8(bytes: &[u8], offset: usize) -> Result<&str, Error> {
    std::str::from_utf8(bytes)
        .map_err(|e| Error::corrupt("text that is not UTF-8", offset + e.valid_up_to()))
}
