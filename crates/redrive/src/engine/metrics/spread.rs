//! How lengths of time are spread, from counts in buckets.

use redrive_store::bucket_end;
use serde::Serialize;

/// Lengths of time in milliseconds. The average is exact; the others are at most an eighth off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// How many there were.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The average.
    pub avg: f64,
    /// Half of them took no longer.
    pub p50: u64,
    /// 95 of 100 took no longer.
    pub p95: u64,
    /// 99 of 100 took no longer.
    pub p99: u64,
    /// The most.
    pub max: u64,
}

impl Spread {
    /// From counts in buckets, in the order of the buckets; nothing when there is none.
    pub(super) fn of(buckets: impl Iterator<Item = (u16, u64)>, sum: u64) -> Option<Spread> {
        let buckets: Vec<(u16, u64)> = buckets.filter(|(_, n)| *n > 0).collect();
        let count = buckets.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n));
        let ((first, _), (last, _)) = (buckets.first()?, buckets.last()?);
        // The place from which 000 reads a percentile: of 100, the 96th is p95.
        let at = |percent: u64| {
            let place = count.saturating_mul(percent) / 100;
            let mut passed = 0_u64;
            for (bucket, n) in &buckets {
                passed = passed.saturating_add(*n);
                if passed > place {
                    return bucket_end(*bucket);
                }
            }
            bucket_end(*last)
        };
        #[allow(clippy::cast_precision_loss)]
        let avg = sum as f64 / count as f64;
        Some(Spread {
            count,
            min: if *first == 0 { 0 } else { bucket_end(first - 1).saturating_add(1) },
            avg: super::two_decimals(avg),
            p50: at(50),
            p95: at(95),
            p99: at(99),
            max: bucket_end(*last),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_store::bucket_of;

    /// R-C4: percentiles of a hundred known times, exact where buckets are.
    #[test]
    fn percentiles_are_read_where_they_stand() {
        let short = Spread::of([(1, 50), (2, 45), (3, 4), (15, 1)].into_iter(), 167).unwrap();
        assert_eq!((short.count, short.min, short.max), (100, 1, 15));
        assert_eq!((short.p50, short.p95, short.p99), (2, 3, 15));
        let one = Spread::of([(bucket_of(700), 1)].into_iter(), 700).unwrap();
        assert!(one.min <= 700 && one.max >= 700 && one.p50 == one.max && one.p99 == one.max);
        assert!((one.avg - 700.0).abs() < 1e-9 && one.max - 700 <= 700 / 8);
        assert_eq!(Spread::of([(3, 0)].into_iter(), 0), None);
    }
}
