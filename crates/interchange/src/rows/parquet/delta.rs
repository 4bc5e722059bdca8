//! Numbers of the encoding `DELTA_BINARY_PACKED`, passed over: how many there are, and where they end.
//!
//! ```text
//! numbers = values a block | parts a block | count | first number | block*
//! block = least difference | width of each part, a byte | differences, of each part as wide
//! ```
//! All but widths and differences are varints.

/// Returns the end of the numbers at the start of `data`, or the reason why they are more than `most`, or
/// none.
pub(super) fn end(data: &[u8], most: usize) -> Result<usize, String> {
    let mut input = Input { data, at: 0 };
    let (per_block, parts, count) = (input.varint()?, input.varint()?, input.varint()?);
    input.varint()?;
    if count > most as u64 {
        return Err(format!("{count} lengths of {most} values"));
    }
    let mut left = count.saturating_sub(1);
    let per_part = per_block.checked_div(parts).unwrap_or(0);
    if left > 0 && per_part == 0 {
        return Err("lengths in parts of none".to_owned());
    }
    while left > 0 {
        input.varint()?;
        let mut bytes = 0_u64;
        for width in input.bytes(parts)? {
            if left > 0 {
                bytes = bytes.saturating_add(u64::from(*width).saturating_mul(per_part) / 8);
                left = left.saturating_sub(per_part);
            }
        }
        // The last part may not be filled up.
        input.at = input.at.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        input.at = input.at.min(data.len());
    }
    Ok(input.at)
}

struct Input<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn bytes(&mut self, len: u64) -> Result<&'a [u8], String> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let bytes = end.and_then(|end| self.data.get(self.at..end));
        let bytes = bytes.ok_or("lengths end early")?;
        self.at += bytes.len();
        Ok(bytes)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number that is too long".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::end;

    #[test]
    fn numbers_end_where_their_last_block_does() {
        // 128 values a block in 4 parts; the first number is 7.
        let head = |count: u8| vec![128, 1, 4, count, 14];
        assert_eq!(end(&head(0), 0), Ok(5));
        assert_eq!(end(&[head(1), vec![9; 3]].concat(), 1), Ok(5));
        // One part of 32 differences of 2 bits; what widths of further parts say does not count.
        let block = [vec![0, 2, 255, 255, 255], vec![1; 8]].concat();
        assert_eq!(end(&[head(33), block.clone(), vec![9; 3]].concat(), 33), Ok(18));
        let two = [vec![0, 2, 1, 255, 255], vec![1; 12]].concat();
        assert_eq!(end(&[head(34), two, vec![9; 3]].concat(), 40), Ok(22));
        assert_eq!(end(&[head(33), block[..9].to_vec()].concat(), 33), Ok(14), "not filled up");
    }

    #[test]
    fn more_numbers_than_values_and_broken_ones_are_refused() {
        let many = [128, 1, 4, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0];
        assert!(end(&many, 1 << 23).unwrap_err().contains("9223372036854775807 lengths"));
        for bad in [&[][..], &[128, 1, 4, 3], &[128, 1, 0, 3, 0], &[0, 4, 3, 0], &[255; 12]] {
            end(bad, 3).unwrap_err();
        }
        // A block that is cut short.
        end(&[128, 1, 4, 33, 0, 0, 2, 2], 33).unwrap_err();
    }
}
