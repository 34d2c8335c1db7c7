//! A quantity over time in bounded memory: buckets whose width doubles when they are full, each with the least, the greatest
//! and the last value, and the moment of the first. The greatest is exact however long the run.

/// Buckets kept.
const BUCKETS: usize = 2048;
/// First width, ns.
const WIDTH_NS: u64 = 1 << 16;

/// What a bucket saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// When the first value came, ns.
    pub first_ns: u64,
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
            first_ns: self.first_ns.min(later.first_ns),
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
            first_ns: at_ns,
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

    /// The quantity in `columns` equal parts of a span: between two values it is what it last was. A bucket counts in the column
    /// of its first value; the others are at most a bucket's width later.
    pub fn columns(&self, from_ns: u64, to_ns: u64, columns: usize) -> Vec<Bucket> {
        let mut answer = Vec::with_capacity(columns);
        let span = u128::from(to_ns.saturating_sub(from_ns).max(1));
        let part = |column: usize| {
            let ns = span * column as u128 / columns.max(1) as u128;
            from_ns.saturating_add(ns as u64)
        };
        let mut buckets = self.buckets().peekable();
        let mut held = 0;
        for column in 0..columns {
            let is_last = column + 1 == columns;
            // What was held when the column began is part of it.
            let mut seen = Bucket {
                first_ns: part(column),
                least: held,
                greatest: held,
                last: held,
            };
            while let Some(bucket) =
                buckets.next_if(|bucket| is_last || bucket.first_ns < part(column + 1))
            {
                seen = seen.merge(bucket);
                held = bucket.last;
            }
            answer.push(seen);
        }
        answer
    }

    /// Everything that was kept, in order of time.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.buckets.iter().flatten().copied()
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
        let greatest = timeline.buckets().map(|b| b.greatest).max();
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
        let seen = |column: usize| {
            let Bucket {
                least,
                greatest,
                last,
                ..
            } = columns[column];
            (least, greatest, last)
        };
        assert_eq!(seen(5), (10, 10, 10));
        assert_eq!(seen(8), (10, 10, 10));
        // The value changed at the very beginning of this part, not in the one before it.
        assert_eq!(seen(9), (3, 10, 3));
    }

    /// Bounds come from a file: a span that no clock has must not overflow.
    #[test]
    fn any_span_is_drawn() {
        let mut timeline = Timeline::default();
        for at in [u64::MAX, 0, 1, u64::MAX - 1] {
            timeline.put(at, at);
        }
        for (from, to) in [(0, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
            let columns = timeline.columns(from, to, 7);
            let greatest = columns.iter().map(|c| c.greatest).max();
            assert_eq!(greatest, Some(u64::MAX));
        }
        assert!(timeline.columns(0, 1, 0).is_empty());
    }
}
