//! Timestamps and durations in nanoseconds, and their text forms.

use crate::value::Value;

const NANOS: i128 = 1_000_000_000;
const DAY: i128 = 86_400;
/// The seconds of 0001-01-01 and 9999-12-31, the bounds of timestamps.
const FIRST: i128 = -62_135_596_800;
const LAST: i128 = 253_402_300_799;

/// Return a timestamp if it is within the years 1 to 9999.
pub(crate) fn in_range(nanos: i128) -> Option<Value> {
    let seconds = nanos.div_euclid(NANOS);
    (FIRST..=LAST)
        .contains(&seconds)
        .then_some(Value::Timestamp(nanos))
}

/// The parts of a point in time.
pub(crate) struct Parts {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) weekday: i64,
    pub(crate) day_of_year: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) nanos: i64,
}

/// Split a point in time into its parts, in a zone that many seconds ahead of UTC.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "timestamps lie within the years 1 to 9999"
)]
pub(crate) fn parts(nanos: i128, ahead: i64) -> Parts {
    let seconds = nanos.div_euclid(NANOS) + i128::from(ahead);
    let (days, second) = (
        seconds.div_euclid(DAY) as i64,
        seconds.rem_euclid(DAY) as i64,
    );
    let (year, month, day) = date(days);
    Parts {
        year,
        month,
        day,
        weekday: (days + 4).rem_euclid(7),
        day_of_year: days - days_before(year, 1, 1),
        hour: second / 3600,
        minute: second / 60 % 60,
        second: second % 60,
        nanos: nanos.rem_euclid(NANOS) as i64,
    }
}

/// Return the days from the epoch to a date, in years that begin in March so that the leap day is the last.
pub(crate) fn days_before(year: i64, month: u32, day: u32) -> i64 {
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let month = i64::from((month + 9) % 12);
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "months and days are small"
)]
fn date(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Parse an RFC 3339 time to nanoseconds since the epoch.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text
            .get(from..to)
            .filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok()
    };
    let sign = |at: usize, wanted: u8| (bytes.get(at) == Some(&wanted)).then_some(());
    sign(10, b'T').or_else(|| sign(10, b't'))?;
    sign(13, b':').and_then(|()| sign(16, b':'))?;
    let midnight = parse_date(text.get(..10)?)?;
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut at = 19;
    let mut nanos = 0_i128;
    if bytes.get(at) == Some(&b'.') {
        let digits = text.get(at + 1..)?;
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return None;
        }
        let kept: String = digits.chars().take(count.min(9)).collect();
        nanos = format!("{kept:0<9}").parse().ok()?;
        at += 1 + count;
    }
    let offset = match text.get(at..)? {
        "Z" | "z" => 0,
        zone => zone_seconds(zone)?,
    };
    let seconds = i128::from(hour * 3600 + minute * 60 + second - offset);
    Some(midnight + seconds * NANOS + nanos)
}

/// Return the seconds by which a zone like `+02:00` is ahead of UTC.
pub(crate) fn zone_seconds(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.as_bytes().first()? {
        b'+' => (1, zone.get(1..)?),
        b'-' => (-1, zone.get(1..)?),
        _ => (1, zone),
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |part: &str| -> Option<i64> {
        (part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse().ok())?
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Parse a date like `2026-01-31` to nanoseconds since the epoch.
pub(crate) fn parse_date(text: &str) -> Option<i128> {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return None;
    };
    let digits = [(year, 4), (month, 2), (day, 2)]
        .iter()
        .all(|(part, length)| {
            part.len() == *length && part.bytes().all(|byte| byte.is_ascii_digit())
        });
    if !digits {
        return None;
    }
    let (year, month, day) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let days = days_before(year, month, day);
    let exists = (1..=12).contains(&month) && date(days) == (year, month, day);
    exists.then(|| i128::from(days) * DAY * NANOS)
}

/// Format a time as RFC 3339 in UTC, with as many digits as needed.
pub(crate) fn shown(nanos: i128) -> String {
    let parts = parts(nanos, 0);
    let fraction = format!(".{:09}", parts.nanos);
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}Z",
        parts.year, parts.month, parts.day, parts.hour, parts.minute, parts.second
    )
}

/// Parse a duration as Go writes it (`1h30m`, `1.5s`); the format of schemas also allows days, weeks and unit words.
pub(crate) fn duration(text: &str, of_schema: bool) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_i128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (amount, after) = rest.split_at(end);
        let after = if of_schema { after.trim_start() } else { after };
        let end = after
            .find(|character: char| character.is_ascii_digit() || matches!(character, '.' | ' '))
            .unwrap_or(after.len());
        let (name, after) = after.split_at(end);
        total = total.checked_add(scaled(amount, unit(name, of_schema)?)?)?;
        rest = if of_schema { after.trim_start() } else { after };
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn unit(name: &str, of_schema: bool) -> Option<i128> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS,
        "m" => 60 * NANOS,
        "h" => 3600 * NANOS,
        _ if !of_schema => return None,
        "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "sec" | "secs" | "second" | "seconds" => NANOS,
        "min" | "mins" | "minute" | "minutes" => 60 * NANOS,
        "hr" | "hour" | "hours" => 3600 * NANOS,
        "d" | "day" | "days" => DAY * NANOS,
        "w" | "wk" | "week" | "weeks" => 7 * DAY * NANOS,
        _ => return None,
    })
}

/// Multiply an amount like `1.5` by a unit.
fn scaled(amount: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut total = whole.checked_mul(unit)?;
    let mut step = unit;
    for digit in fraction.bytes().take(18) {
        step /= 10;
        total = total.checked_add(i128::from(digit.saturating_sub(b'0')) * step)?;
    }
    Some(total)
}
