//! Quantities (`500m`, `1.5Gi`) in the form in which Go writes them after it has read them.
//!
//! It follows `ParseQuantity` and `CanonicalizeBytes` of `k8s.io/apimachinery/pkg/api/resource`, with decimal digits
//! instead of big numbers, what they do to numbers beyond all suffixes included.

use std::io::Write as _;

/// The exponent of the most precise suffix, `n`.
const NANO: i64 = -9;

/// What kind of suffix a quantity has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// A text taken apart; the value is `number.fraction` with the exponent of the suffix.
struct Parts<'a> {
    negative: bool,
    number: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// Whether there is a digit at all.
    digits: bool,
}

/// The digits without leading zeros, and the power of ten that they are multiplied by.
struct Amount {
    digits: Vec<u8>,
    exponent: i64,
}

/// Append the canonical form of a quantity; return false if it is none.
pub(super) fn write_canonical(out: &mut Vec<u8>, text: &str) -> bool {
    let Some(parts) = split(text) else {
        return false;
    };
    let Some((exponent, mut format)) = suffix(parts.suffix) else {
        return false;
    };
    if let Some(quick) = quick(&parts, exponent, format) {
        match quick {
            None => out.extend_from_slice(text.as_bytes()),
            Some(amount) => amount.write(out, parts.negative, format),
        }
        return true;
    }
    if !parts.digits {
        return false;
    }
    let mut amount = Amount::new(&parts);
    if format == Format::Binary {
        amount.shift(exponent);
    } else {
        amount.exponent += i64::from(exponent);
    }
    amount.round_up();
    if format == Format::Binary {
        if amount.integer().is_none_or(|(integer, exact)| {
            integer > i64::MAX as u64 || (integer == i64::MAX as u64 && !exact)
        }) {
            amount = Amount::of(i64::MAX as u64, 0);
        }
        if amount.integer().is_some_and(|(integer, _)| integer == 0) {
            format = Format::Decimal;
        }
    }
    amount.write(out, parts.negative, format);
    true
}

/// Take a text apart.
fn split(text: &str) -> Option<Parts<'_>> {
    if text.is_empty() {
        return None;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (leading, rest) = unsigned.split_at(digits(unsigned));
    let number = leading.trim_start_matches('0');
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(digits(after)),
        None => ("", rest),
    };
    let letters = rest.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let power = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    (digits(power) == power.len()).then_some(Parts {
        negative: text.starts_with('-'),
        number: if number.is_empty() { "0" } else { number },
        fraction,
        suffix: rest,
        digits: !leading.is_empty() || !fraction.is_empty(),
    })
}

/// Return the exponent of a suffix (of two for binary ones, else of ten) and its format.
fn suffix(text: &str) -> Option<(i32, Format)> {
    let decimal = |exponent| Some((exponent, Format::Decimal));
    let binary = |exponent| Some((exponent, Format::Binary));
    match text {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let power = text.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
            #[expect(clippy::cast_possible_truncation, reason = "as Go does")]
            Some((power as i32, Format::Exponent))
        }
    }
}

/// Read a number that fits into 64 bits; `Some(None)` if the text is canonical as it is.
#[expect(clippy::option_option, reason = "no quick way, as it is, or an amount")]
fn quick(parts: &Parts<'_>, exponent: i32, format: Format) -> Option<Option<Amount>> {
    let length = i64::try_from(parts.number.len() + parts.fraction.len()).ok()?;
    let (precision, mantissa) = match format {
        Format::Decimal | Format::Exponent => (18 - length, 1_u64),
        Format::Binary if parts.fraction.is_empty() => (
            15 - length - i64::from(exponent) * 3 / 10 - 1,
            1 << exponent,
        ),
        Format::Binary => return None,
    };
    let scale = match format {
        Format::Binary => 0,
        _ => i64::from(exponent) - i64::try_from(parts.fraction.len()).ok()?,
    };
    if precision < 0 || scale < NANO {
        return None;
    }
    let digits = parts.number.bytes().chain(parts.fraction.bytes());
    let value = digits.fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    let result = i64::try_from(value.checked_mul(mantissa)?).ok()?;
    let canonical = if format == Format::Binary {
        exponent % 10 == 0 && value & 7 != 0
    } else {
        let zeros = parts.number.bytes().chain(parts.fraction.bytes()).rev();
        let zeros = zeros.take_while(|digit| *digit == b'0').count();
        scale % 3 == 0 && zeros < 3 && !parts.number.starts_with('0')
    };
    Some((!canonical).then(|| Amount::of(result.unsigned_abs(), scale)))
}

impl Amount {
    fn of(value: u64, exponent: i64) -> Self {
        let digits = match value {
            0 => Vec::new(),
            _ => value.to_string().into_bytes(),
        };
        Self { digits, exponent }
    }

    fn new(parts: &Parts<'_>) -> Self {
        let digits = parts.number.bytes().chain(parts.fraction.bytes());
        Self {
            digits: digits.skip_while(|digit| *digit == b'0').collect(),
            exponent: -i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX),
        }
    }

    /// Multiply by a power of two, at most 2^60.
    fn shift(&mut self, exponent: i32) {
        let mut carry = 0_u128;
        for digit in self.digits.iter_mut().rev() {
            carry += u128::from(*digit - b'0') << exponent;
            *digit = b'0' + u8::try_from(carry % 10).unwrap_or(0);
            carry /= 10;
        }
        if carry > 0 {
            let front = carry.to_string().into_bytes();
            self.digits.splice(0..0, front);
        }
    }

    /// Round up to billionths.
    fn round_up(&mut self) {
        let Ok(dropped) = usize::try_from(NANO.saturating_sub(self.exponent)) else {
            return;
        };
        if dropped == 0 || self.digits.is_empty() {
            return;
        }
        self.exponent = NANO;
        let kept = self.digits.len().saturating_sub(dropped);
        if self.digits.drain(kept..).all(|digit| digit == b'0') {
            return;
        }
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.digits.insert(0, b'1');
    }

    /// Return the integer part, and whether there is no more than it; None over 64 bits.
    fn integer(&self) -> Option<(u64, bool)> {
        let split = i64::try_from(self.digits.len()).ok()? + self.exponent.min(0);
        let split = usize::try_from(split).unwrap_or(0);
        let (whole, fraction) = self.digits.split_at_checked(split)?;
        let mut value = 0_u64;
        for digit in whole {
            value = value
                .checked_mul(10)?
                .checked_add(u64::from(digit - b'0'))?;
        }
        for _ in 0..self.exponent.max(0) {
            if value == 0 {
                break;
            }
            value = value.checked_mul(10)?;
        }
        Some((value, fraction.iter().all(|digit| *digit == b'0')))
    }

    /// Append the canonical form.
    fn write(mut self, out: &mut Vec<u8>, negative: bool, format: Format) {
        if self.digits.iter().all(|digit| *digit == b'0') {
            out.push(b'0');
            return;
        }
        if negative {
            out.push(b'-');
        }
        if format == Format::Binary
            && let Some((integer @ 1024.., true)) = self.integer()
        {
            write_binary(out, integer);
            return;
        }
        while self.digits.last() == Some(&b'0') {
            self.digits.pop();
            self.exponent += 1;
        }
        while self.exponent % 3 != 0 {
            self.digits.push(b'0');
            self.exponent -= 1;
        }
        out.extend_from_slice(&self.digits);
        match format {
            Format::Exponent if self.exponent == 0 => {}
            Format::Exponent => {
                // Writing into memory cannot fail.
                let _ = write!(out, "e{}", self.exponent);
            }
            _ => out.extend_from_slice(match self.exponent {
                -9 => b"n",
                -6 => b"u",
                -3 => b"m",
                3 => b"k",
                6 => b"M",
                9 => b"G",
                12 => b"T",
                15 => b"P",
                18 => b"E",
                _ => b"",
            }),
        }
    }
}

fn write_binary(out: &mut Vec<u8>, mut integer: u64) {
    let mut times = 0_usize;
    while integer >= 1024 && integer.is_multiple_of(1024) {
        integer /= 1024;
        times += 1;
    }
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let suffix = suffix.get(times).copied().unwrap_or_default();
    // Writing into memory cannot fail.
    let _ = write!(out, "{integer}{suffix}");
}
