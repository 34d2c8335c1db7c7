//! Faults on demand: `STANDIN_FAIL="cuMemAlloc_v2@3=2;cuMemFree_v2@*=700"`, `STANDIN_SLOW="cuMemAlloc_v2=5ms"`.

use std::collections::HashMap;
use std::env;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What a chosen call does wrong.
#[derive(Debug, Default)]
struct Plan {
    calls: AtomicU64,
    /// The n-th call, counted from 1, or every one.
    fails: Vec<(Option<u64>, c_int)>,
    slow: Duration,
}

/// All plans.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    plans: HashMap<String, Plan>,
    /// What was wrong with the variables; `cuInit` answers UNKNOWN then.
    pub(crate) malformed: Option<String>,
}

impl Faults {
    /// The plans of this process, read once.
    pub(crate) fn get() -> &'static Self {
        static FAULTS: OnceLock<Faults> = OnceLock::new();
        FAULTS.get_or_init(|| {
            let text = |name| env::var(name).unwrap_or_default();
            Self::parse(&text("STANDIN_FAIL"), &text("STANDIN_SLOW"))
        })
    }

    fn parse(fail: &str, slow: &str) -> Self {
        let mut faults = Self::default();
        for item in fail.split(';').filter(|item| !item.is_empty()) {
            match parse_fail(item) {
                Some((name, which, result)) => {
                    faults
                        .plans
                        .entry(name)
                        .or_default()
                        .fails
                        .push((which, result));
                }
                None => {
                    faults.malformed = Some(format!(
                        "STANDIN_FAIL: {item:?} is not CALL@N=RESULT or CALL@*=RESULT"
                    ))
                }
            }
        }
        for item in slow.split(';').filter(|item| !item.is_empty()) {
            match parse_slow(item) {
                Some((name, time)) => faults.plans.entry(name).or_default().slow = time,
                None => {
                    faults.malformed = Some(format!(
                        "STANDIN_SLOW: {item:?} is not CALL=TIME, such as cuMemAlloc_v2=5ms"
                    ))
                }
            }
        }
        faults
    }

    /// Counts a call, waits as planned, and says with which result it is to fail.
    pub(crate) fn next(&self, name: &str) -> Option<c_int> {
        if self.plans.is_empty() {
            return None;
        }
        let plan = self.plans.get(name)?;
        let number = plan.calls.fetch_add(1, Ordering::Relaxed) + 1;
        if !plan.slow.is_zero() {
            thread::sleep(plan.slow);
        }
        plan.fails
            .iter()
            .find(|(which, _)| which.is_none_or(|n| n == number))
            .map(|(_, result)| *result)
    }
}

fn parse_fail(item: &str) -> Option<(String, Option<u64>, c_int)> {
    let (call, result) = item.split_once('=')?;
    let (name, which) = call.split_once('@')?;
    let which = match which {
        "*" => None,
        number => Some(number.parse().ok()?),
    };
    Some((name.to_owned(), which, result.parse().ok()?))
}

fn parse_slow(item: &str) -> Option<(String, Duration)> {
    let (name, time) = item.split_once('=')?;
    let time = if let Some(n) = time.strip_suffix("ms") {
        Duration::from_millis(n.parse().ok()?)
    } else if let Some(n) = time.strip_suffix("us") {
        Duration::from_micros(n.parse().ok()?)
    } else {
        Duration::from_secs(time.strip_suffix('s')?.parse().ok()?)
    };
    Some((name.to_owned(), time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_followed_call_by_call() {
        let faults = Faults::parse("cuMemAlloc_v2@2=2;cuMemFree_v2@*=700", "cuInit=0us");
        let answers: Vec<_> = (0..3).map(|_| faults.next("cuMemAlloc_v2")).collect();
        assert_eq!(answers, [None, Some(2), None]);
        assert_eq!(faults.next("cuMemFree_v2"), Some(700));
        assert_eq!(faults.next("cuCtxCreate_v2"), None);
        assert!(faults.malformed.is_none());
    }

    #[test]
    fn what_is_malformed_is_named() {
        for (fail, slow) in [
            ("cuInit", ""),
            ("cuInit@x=1", ""),
            ("", "cuInit=5"),
            ("", "cuInit=xms"),
        ] {
            assert!(
                Faults::parse(fail, slow).malformed.is_some(),
                "{fail}{slow}"
            );
        }
    }
}
