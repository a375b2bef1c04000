//! Rules and patterns of CRD schemas.

mod cel;
mod pattern;

pub(crate) use cel::CelValidator;
pub(crate) use pattern::Pattern;
