//! A quantity over time in bounded memory: buckets whose width doubles when they are full, each with the least, the greatest
//! and the last value. The greatest is exact however long the run.

/// Buckets kept.
const BUCKETS: usize = 2048;
/// First width, ns.
const WIDTH_NS: u64 = 1 << 16;

/// What a bucket saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Least value.
    pub least: u64,
    /// Greatest value.
    pub greatest: u64,
    /// Last value.
    pub last: u64,
}

impl Bucket {
    fn merge(self, later: Self) -> Self {
        Self {
            least: self.least.min(later.least),
            greatest: self.greatest.max(later.greatest),
            last: later.last,
        }
    }
}

/// A quantity over time; 0 before the first value.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    start_ns: u64,
    width_ns: u64,
    buckets: Vec<Option<Bucket>>,
}

impl Timeline {
    /// Adds a value. Times may step back a little between threads; such a value counts where the time says.
    pub fn put(&mut self, at_ns: u64, value: u64) {
        if self.buckets.is_empty() {
            (self.start_ns, self.width_ns) = (at_ns, WIDTH_NS);
        }
        let since = at_ns.saturating_sub(self.start_ns);
        while since / self.width_ns >= BUCKETS as u64 {
            self.halve();
        }
        let index = (since / self.width_ns) as usize;
        if index >= self.buckets.len() {
            self.buckets.resize(index + 1, None);
        }
        let fresh = Bucket {
            least: value,
            greatest: value,
            last: value,
        };
        self.buckets[index] = Some(self.buckets[index].map_or(fresh, |had| had.merge(fresh)));
    }

    fn halve(&mut self) {
        let merged = self
            .buckets
            .chunks(2)
            .map(|pair| match *pair {
                [Some(a), Some(b)] => Some(a.merge(b)),
                [a, b] => a.or(b),
                [a] => a,
                _ => None,
            })
            .collect();
        self.buckets = merged;
        self.width_ns = self.width_ns.saturating_mul(2);
    }

    /// The quantity in `columns` equal parts of a span: between two values it is what it last was.
    pub fn columns(&self, from_ns: u64, to_ns: u64, columns: usize) -> Vec<Bucket> {
        let nothing = Bucket {
            least: 0,
            greatest: 0,
            last: 0,
        };
        let mut answer = Vec::with_capacity(columns);
        let span = to_ns.saturating_sub(from_ns).max(1);
        let mut next = 0;
        let mut held = nothing;
        for column in 0..columns {
            let end =
                from_ns + (u128::from(span) * (column as u128 + 1) / columns.max(1) as u128) as u64;
            // What was held when the column began is part of it.
            let mut seen = Bucket {
                least: held.last,
                greatest: held.last,
                last: held.last,
            };
            while next < self.buckets.len() {
                let starts = self.start_ns + next as u64 * self.width_ns;
                let is_last = column + 1 == columns;
                if starts >= end && !is_last {
                    break;
                }
                if let Some(bucket) = self.buckets[next] {
                    seen = seen.merge(bucket);
                    held = bucket;
                }
                next += 1;
            }
            answer.push(seen);
        }
        answer
    }

    /// Start of each bucket that saw a value, CLOCK_MONOTONIC ns, with what it saw.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, Bucket)> + '_ {
        self.buckets
            .iter()
            .enumerate()
            .filter_map(|(index, bucket)| {
                bucket.map(|bucket| (self.start_ns + index as u64 * self.width_ns, bucket))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The peak of a long run must survive every doubling.
    #[test]
    fn the_greatest_value_survives_any_length() {
        let mut timeline = Timeline::default();
        for step in 0..100_000_u64 {
            let value = if step == 71_234 {
                1_000_000
            } else {
                step % 100
            };
            timeline.put(5_000 + step * 10_000_000, value);
        }
        let greatest = timeline.buckets().map(|(_, b)| b.greatest).max();
        assert_eq!(greatest, Some(1_000_000));
        assert!(timeline.buckets.len() <= BUCKETS);
        let columns = timeline.columns(5_000, 5_000 + 100_000 * 10_000_000, 50);
        assert_eq!(columns.len(), 50);
        let at = columns.iter().position(|c| c.greatest == 1_000_000);
        assert_eq!(at, Some(35));
    }

    #[test]
    fn between_two_values_it_is_what_it_last_was() {
        let mut timeline = Timeline::default();
        timeline.put(0, 10);
        timeline.put(900_000_000, 3);
        let columns = timeline.columns(0, 1_000_000_000, 10);
        assert_eq!(
            columns[5],
            Bucket {
                least: 10,
                greatest: 10,
                last: 10
            }
        );
        assert_eq!(
            columns[9],
            Bucket {
                least: 3,
                greatest: 10,
                last: 3
            }
        );
    }
}
