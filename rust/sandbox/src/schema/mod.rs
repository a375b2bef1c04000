//! Rules and patterns of CRD schemas.

mod cel;
mod expressions;
mod pattern;

pub(crate) use cel::CelValidator;
pub(crate) use expressions::CelExpressions;
pub(crate) use pattern::Pattern;
