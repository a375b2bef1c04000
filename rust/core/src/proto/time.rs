//! Times and durations as Go writes them.

use std::io::Write as _;

/// `0001-01-01T00:00:00Z`, the zero time of Go, in seconds since 1970.
const ZERO: i64 = -62_135_596_800;

/// A moment as it is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) seconds: i64,
    pub(super) nanos: i32,
}

impl Moment {
    pub(super) const ZERO: Self = Self {
        seconds: ZERO,
        nanos: 0,
    };

    /// Return whether Go writes `null`.
    pub(super) fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Append the time as RFC 3339 in UTC, without quotes; with six digits of a second if `micros`.
    pub(super) fn write(self, out: &mut Vec<u8>, micros: bool) {
        // Go drops what is less than a microsecond, towards zero, before it carries over.
        let micro = i64::from(self.nanos) / 1_000;
        let seconds = self.seconds.wrapping_add(micro.div_euclid(1_000_000));
        let (year, month, day) = date(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        let sign = if year < 0 { "-" } else { "" };
        // Writing into memory cannot fail.
        let _ = write!(
            out,
            "{sign}{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
            year.unsigned_abs(),
            second / 3_600,
            second / 60 % 60,
            second % 60
        );
        if micros {
            let _ = write!(out, ".{:06}", micro.rem_euclid(1_000_000));
        }
        out.push(b'Z');
    }
}

/// Return year, month and day of a day since 1970, in the Gregorian calendar.
fn date(days: i64) -> (i64, i64, i64) {
    // Years begin with March, so that the leap day is the last one; eras have 400 years.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, date)
}

/// Append a duration of nanoseconds, without quotes: `1h0m0.5s`.
pub(super) fn write_duration(out: &mut Vec<u8>, nanos: i64) {
    if nanos < 0 {
        out.push(b'-');
    }
    let all = nanos.unsigned_abs();
    let unit: &[u8] = match all {
        0 => b"0s",
        1..1_000 => b"ns",
        1_000..1_000_000 => "µs".as_bytes(),
        1_000_000..1_000_000_000 => b"ms",
        _ => {
            let seconds = all / 1_000_000_000;
            let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
            if hours > 0 {
                let _ = write!(out, "{hours}h");
            }
            if hours > 0 || minutes > 0 {
                let _ = write!(out, "{minutes}m");
            }
            write_fraction(out, seconds % 60, all % 1_000_000_000, 9);
            out.push(b's');
            return;
        }
    };
    match all {
        0 => {}
        1..1_000 => write_fraction(out, all, 0, 0),
        1_000..1_000_000 => write_fraction(out, all / 1_000, all % 1_000, 3),
        _ => write_fraction(out, all / 1_000_000, all % 1_000_000, 6),
    }
    out.extend_from_slice(unit);
}

/// Append `whole.fraction` without zeros at the end; the fraction has so many digits.
fn write_fraction(out: &mut Vec<u8>, whole: u64, fraction: u64, digits: usize) {
    let _ = write!(out, "{whole}");
    if fraction > 0 {
        let _ = write!(out, ".{fraction:0digits$}");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: scale/SC72
    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (-1_500, "-1.5µs"),
            (2_500_000, "2.5ms"),
            (1_000_000_000, "1s"),
            (90_000_000_000, "1m30s"),
            (3_600_500_000_000, "1h0m0.5s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            let mut out = Vec::new();
            write_duration(&mut out, nanos);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }

    #[test]
    fn no_moment_overflows() {
        for seconds in [i64::MIN, i64::MAX] {
            for nanos in [i32::MIN, i32::MAX] {
                let mut out = Vec::new();
                Moment { seconds, nanos }.write(&mut out, true);
                assert!(out.ends_with(b"Z"));
            }
        }
    }
}
