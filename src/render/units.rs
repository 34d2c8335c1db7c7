//! Sizes in IEC units, times in the unit that fits.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A size for people: three significant digits or more, "20.0 MiB".
pub fn bytes(size: u64) -> String {
    let mut value = size as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    // Rounding may reach the next unit: "1024.0 KiB" is 1.0 MiB.
    if unit > 0 && value >= 1023.95 && unit + 1 < UNITS.len() {
        value = 1.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{size} B")
    } else if value >= 100.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A span of time for people.
pub fn span(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else if seconds < 3600.0 {
        let whole = seconds.round() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let whole = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", whole / 60, whole % 60)
    }
}

/// A moment, in seconds since the capture was opened.
pub fn seconds(value: f64) -> String {
    if value.abs() < 100.0 {
        format!("{value:.2} s")
    } else {
        format!("{value:.0} s")
    }
}

/// A moment, as seconds since the capture was opened.
pub fn seconds_since(at_ns: u64, opened_ns: u64) -> f64 {
    (i128::from(at_ns) - i128::from(opened_ns)) as f64 / 1e9
}

/// Wall-clock time in this place, "2026-12-01 14:12:09".
pub fn wall(realtime_ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(realtime_ns)) {
        Ok(time) => time
            .to_zoned(TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => "at an unknown time".to_owned(),
    }
}

/// The same in a form for machines, RFC 3339 in UTC.
pub fn wall_utc(realtime_ns: u64) -> String {
    Timestamp::from_nanosecond(i128::from(realtime_ns))
        .map_or_else(|_| String::new(), |time| time.to_string())
}

/// A count with its noun, "1 process", "2 processes".
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { many })
}

/// A number with separators, "1,234,567".
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_and_never_show_1024_of_a_unit() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (20_971_520, "20.0 MiB"),
            (150_109_880_320, "140 GiB"),
            (1_048_575, "1.0 MiB"),
            (1 << 50, "1.0 PiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn spans_take_the_unit_that_fits() {
        for (ns, text) in [
            (900, "1 µs"),
            (2_000_000, "2 ms"),
            (3_240_000_000, "3.2 s"),
            (61_000_000_000, "1 min 01 s"),
            (7_260_000_000_000, "2 h 01 min"),
        ] {
            assert_eq!(span(ns), text);
        }
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(123), "123");
    }
}
