//! The time of a row. Rows come in the order of their times, which fill July 2013; a day has its quiet
//! and its busy hours.

/// Days from 1970-01-01 to 2013-07-01.
pub(super) const FIRST_DAY: i64 = 15_887;

/// Number of days of the table.
pub(super) const DAYS: i64 = 31;

/// Rows of each hour of a day, relative to each other.
const HOURS: [u64; 24] =
    [21, 14, 10, 8, 8, 10, 15, 24, 36, 47, 54, 57, 57, 56, 57, 57, 56, 54, 52, 53, 55, 54, 46, 34];

/// Returns the time of row `row` of `rows` in seconds since 1970-01-01 00:00:00. Of two rows the later
/// one never has the earlier time. `row` is below `rows`.
pub(super) fn event_time(row: u64, rows: u64) -> i64 {
    const DAY: u64 = total() * 3_600;
    // An hour of weight w is 3,600 w units long; a unit has the same number of rows everywhere.
    let units = u128::from(DAY) * DAYS.unsigned_abs() as u128;
    let at = (u128::from(row) * units / u128::from(rows)) as u64;
    let (day, mut rest) = (at / DAY, at % DAY);
    let mut second = 0;
    for weight in HOURS {
        if rest < weight * 3_600 {
            second += rest / weight;
            break;
        }
        rest -= weight * 3_600;
        second += 3_600;
    }
    (FIRST_DAY + day.cast_signed()) * 86_400 + second.cast_signed()
}

const fn total() -> u64 {
    let mut sum = 0;
    let mut hour = 0;
    while hour < HOURS.len() {
        sum += HOURS[hour];
        hour += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_ascend_and_fill_the_month() {
        for rows in [1, 7, 10_000, u64::MAX] {
            let step = (rows / 5_000).max(1);
            let sampled = (0..rows).step_by(usize::try_from(step).unwrap());
            let times: Vec<i64> = sampled.map(|row| event_time(row, rows)).collect();
            assert!(times.is_sorted(), "{rows} rows");
            let last = event_time(rows - 1, rows);
            assert_eq!(times[0], FIRST_DAY * 86_400, "{rows} rows");
            assert!(last < (FIRST_DAY + DAYS) * 86_400, "{rows} rows");
            if rows > 5_000 {
                assert_eq!(last.div_euclid(86_400), FIRST_DAY + DAYS - 1, "{rows} rows");
            }
        }
    }
}
