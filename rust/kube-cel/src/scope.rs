//! The values of the names in an expression.

use crate::error::EvalError;
use crate::question::{Decision, Question};
use crate::value::Value;

/// The name whose fields are expressions themselves.
pub(crate) const VARIABLES: &str = "variables";

/// Resolves the names of an expression while it runs.
pub(crate) trait Scope {
    /// Return the value of a name; None if it has none.
    fn value(&self, name: &str) -> Option<Value>;

    /// Return the value of a named expression; None if there is no such name.
    fn variable(&self, _name: &str) -> Result<Option<Value>, EvalError> {
        Ok(None)
    }

    /// Ask the authorizer; None without one.
    fn authorize(&self, _question: &Question) -> Option<Decision> {
        None
    }
}

/// The scope of a rule of a schema.
pub(crate) struct RuleScope<'a> {
    pub(crate) this: &'a Value,
    pub(crate) old: Option<&'a Value>,
}

impl Scope for RuleScope<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        match name {
            "self" => Some(self.this.clone()),
            "oldSelf" => self.old.cloned(),
            _ => None,
        }
    }
}
