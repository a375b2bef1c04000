//! One value that is neither a list nor a map.

use std::io::Write as _;

use super::Writer;
use crate::proto::sink::Sink;
use crate::proto::table::{Form, Spec};
use crate::proto::wire::{Part, Raw};
use crate::proto::{Problem, ProtoError};

impl<'a, S: Sink> Writer<'a, '_, S> {
    /// Write the value of a field: a scalar as `raw`, a message from its parts, whose last one is in `raw`.
    pub(in crate::proto) fn value(
        &mut self,
        spec: Spec,
        raw: Raw<'a>,
        parts: &[Part<'a>],
    ) -> Result<(), ProtoError> {
        let form = spec.form();
        match form {
            Form::String => self.out.text(raw.part().bytes()),
            Form::Bytes => self.out.base64(raw.part().bytes()),
            Form::Bool => self
                .out
                .put(if raw.bits() == 0 { b"false" } else { b"true" }),
            Form::Int32 | Form::Int64 => self.integer(signed(form, raw.bits())),
            Form::Uint32 | Form::Uint64 => self.unsigned(form, raw.bits()),
            Form::Float32 | Form::Float64 => self.float(form, raw, parts)?,
            Form::Message if spec.has(Spec::CLAIM) => {
                self.open(b"{");
                self.types("v1", "PersistentVolumeClaim");
                self.members(spec.message(), parts)?;
                self.close(b"}");
            }
            Form::Message => self.object(spec.message(), parts)?,
            Form::Hidden | Form::Inline => {}
            _ => {
                self.enter(parts)?;
                self.special(spec, parts)?;
                self.messages -= 1;
            }
        }
        Ok(())
    }

    pub(super) fn integer(&mut self, value: i64) {
        // Writing into memory cannot fail.
        self.out.with(|out| drop(write!(out, "{value}")));
    }

    fn unsigned(&mut self, form: Form, bits: u64) {
        let value = match form {
            Form::Uint32 => bits & u64::from(u32::MAX),
            _ => bits,
        };
        self.out.with(|out| drop(write!(out, "{value}")));
    }

    /// Write a floating-point number with as few digits as tell it from others.
    fn float(&mut self, form: Form, raw: Raw<'a>, parts: &[Part<'a>]) -> Result<(), ProtoError> {
        let (text, size) = match (form, raw) {
            (Form::Float32, Raw::Fixed32(bits)) => float_text(f32::from_bits(bits)),
            (_, raw) => float_text(f64::from_bits(raw.bits())),
        };
        if !size.is_finite() {
            let at = parts.first().map_or(0, |part| part.start());
            let problem = Problem::Value("JSON has no infinite numbers and no NaN");
            return Err(ProtoError::new(at, problem));
        }
        self.out.put(text.as_bytes());
        Ok(())
    }
}

/// Return a number of that form; more bits than it has are cut, as Go does.
#[expect(clippy::cast_possible_truncation, reason = "as Go does")]
#[expect(clippy::cast_possible_wrap, reason = "the bits of a signed number")]
pub(super) fn signed(form: Form, bits: u64) -> i64 {
    match form {
        Form::Int32 => i64::from(bits as i32),
        _ => bits as i64,
    }
}

/// Return a floating-point number as JSON, and as a number.
fn float_text<F>(value: F) -> (String, f64)
where
    F: Into<f64> + Copy + std::fmt::Display + std::fmt::LowerExp,
{
    let size: f64 = value.into();
    let text = match size.abs() {
        0.0 | 1e-6..1e21 => value.to_string(),
        _ => format!("{value:e}"),
    };
    (text, size)
}
