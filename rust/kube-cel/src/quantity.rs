//! Quantities: numbers with units (`1.5Gi`, `100m`).

use std::cmp::Ordering;

pub(crate) const BAD: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// A decimal number: `digits` times ten to the power of `exponent`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    digits: i128,
    exponent: i32,
}

/// The maximum number of digits.
const MAX_DIGITS: usize = 24;
const MAX_EXPONENT: i32 = 60;

impl Quantity {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return None;
        }
        let written = format!("{whole}{fraction}");
        let written = written.trim_start_matches('0');
        if written.len() > MAX_DIGITS {
            return None;
        }
        let mut digits: i128 = if written.is_empty() {
            0
        } else {
            written.parse().ok()?
        };
        let mut exponent = -i32::try_from(fraction.len()).ok()?;
        let (power, binary) = unit(suffix)?;
        exponent += power;
        digits = digits.checked_mul(1 << binary)?;
        if text.starts_with('-') {
            digits = -digits;
        }
        Some(Self { digits, exponent }.tidy())
    }

    pub(crate) fn of_integer(number: i64) -> Self {
        Self {
            digits: i128::from(number),
            exponent: 0,
        }
        .tidy()
    }

    /// Remove zeros at the end, so that equal numbers have equal parts.
    fn tidy(mut self) -> Self {
        if self.digits == 0 {
            self.exponent = 0;
        }
        while self.digits != 0 && self.digits % 10 == 0 {
            self.digits /= 10;
            self.exponent += 1;
        }
        self
    }

    /// Return the digits at a smaller exponent; None if there are too many.
    fn at(&self, exponent: i32) -> Option<i128> {
        let power = u32::try_from(self.exponent - exponent).ok()?;
        self.digits.checked_mul(10_i128.checked_pow(power)?)
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let exponent = self.exponent.min(other.exponent);
        match (self.at(exponent), other.at(exponent)) {
            (Some(a), Some(b)) => a.cmp(&b),
            // One of them is so large that the other one does not matter.
            _ => self.approximate().total_cmp(&other.approximate()),
        }
    }

    pub(crate) fn add(&self, other: &Self) -> Option<Self> {
        let exponent = self.exponent.min(other.exponent);
        let digits = self.at(exponent)?.checked_add(other.at(exponent)?)?;
        Some(Self { digits, exponent }.tidy())
    }

    pub(crate) fn negated(&self) -> Self {
        Self {
            digits: -self.digits,
            exponent: self.exponent,
        }
    }

    pub(crate) fn sign(&self) -> i64 {
        self.digits.signum().try_into().unwrap_or(0)
    }

    /// Return the number as an integer, if it is one that fits.
    pub(crate) fn integer(&self) -> Option<i64> {
        if self.exponent < 0 {
            return None;
        }
        self.at(0)?.try_into().ok()
    }

    #[allow(clippy::cast_precision_loss, reason = "that is what is asked for")]
    pub(crate) fn approximate(&self) -> f64 {
        self.digits as f64 * 10_f64.powi(self.exponent)
    }
}

/// Powers of ten and of two.
fn unit(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let power: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (-MAX_EXPONENT..=MAX_EXPONENT)
                .contains(&power)
                .then_some((power, 0))?
        }
    })
}
