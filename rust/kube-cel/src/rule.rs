//! One compiled rule of a schema.

use serde_json::Value as Json;

use crate::ast::Ast;
use crate::check::{Checked, Names, check};
use crate::equality::Budget;
use crate::error::EvalError;
use crate::eval::Evaluation;
use crate::parser::parse;
use crate::schema::{below, flag, string};
use crate::scope::Scope;
use crate::types::Type;
use crate::value::Value;

/// The reasons that a rule may give.
pub(crate) const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// The maximum number of steps of one evaluation.
const CALL_STEPS: u64 = 1_000_000;

/// An expression that can be evaluated.
#[derive(Debug)]
pub(crate) struct Program {
    ast: Ast,
    checked: Checked,
}

impl Program {
    /// Compile an expression with that type of result; the error is its message.
    pub(crate) fn compile(
        text: &str,
        this: &Type,
        old: &Type,
        wanted: &Type,
    ) -> Result<Self, String> {
        let program = Self::checked(text, &Names::of_rule(this, old))?;
        let fits = match program.checked.result {
            Type::Dyn => false,
            ref found => found.fits(wanted),
        };
        if !fits {
            let name = if matches!(wanted, Type::Bool) {
                "cel expression must evaluate to a bool"
            } else {
                "messageExpression must evaluate to a string"
            };
            return Err(name.to_owned());
        }
        Ok(program)
    }

    /// Parse and check an expression; the error is its message.
    pub(crate) fn checked(text: &str, names: &Names) -> Result<Self, String> {
        let failed = |error: crate::error::CompileError| {
            format!("compilation failed: {}", error.shown(text))
        };
        let ast = parse(text).map_err(failed)?;
        let checked = check(&ast, names).map_err(failed)?;
        Ok(Self { ast, checked })
    }

    /// Return the type of the result.
    pub(crate) fn result(&self) -> &Type {
        &self.checked.result
    }

    /// Evaluate; also return the number of steps left.
    pub(crate) fn run(&self, scope: &dyn Scope, left: u64) -> (Result<Value, EvalError>, u64) {
        let allowed = left.min(CALL_STEPS);
        let mut budget = Budget { left: allowed };
        let mut evaluation = Evaluation {
            ast: &self.ast,
            checked: &self.checked,
            scope,
            locals: Vec::new(),
            budget: &mut budget,
        };
        let outcome = evaluation.of(self.ast.root);
        let used = allowed - budget.left;
        (outcome, left - used)
    }

    pub(crate) fn uses_old_self(&self) -> bool {
        self.checked.uses_old_self
    }

    /// Return the number of levels of the expression.
    pub(crate) fn depth(&self) -> usize {
        self.ast
            .nodes
            .get(self.ast.root)
            .map_or(0, |root| root.depth)
    }

    /// Return the approximate size in bytes.
    pub(crate) fn size(&self) -> usize {
        let patterns = self
            .checked
            .patterns
            .values()
            .map(crate::pattern::Pattern::size);
        self.ast.nodes.len() * 128 + patterns.sum::<usize>()
    }
}

/// A rule with its message.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) program: Program,
    pub(crate) text: String,
    message: String,
    pub(crate) message_program: Option<Program>,
    pub(crate) reason: &'static str,
    /// The part of the path from the node to the field of the cause.
    pub(crate) field: String,
    pub(crate) optional_old: bool,
}

impl Rule {
    /// Create a rule from its compiled parts.
    pub(crate) fn new(
        json: &Json,
        program: Program,
        message_program: Option<Program>,
        field: String,
    ) -> Self {
        let text = |name: &str| string(json, name).trim().to_owned();
        Self {
            program,
            text: text("rule"),
            message: text("message"),
            message_program,
            reason: REASONS
                .into_iter()
                .find(|reason| string(json, "reason") == *reason)
                .unwrap_or("FieldValueInvalid"),
            field,
            optional_old: flag(json, "optionalOldSelf"),
        }
    }

    /// Return the name of the rule in errors.
    pub(crate) fn name(&self) -> &str {
        if self.message.is_empty() {
            &self.text
        } else {
            &self.message
        }
    }

    /// Return the message of a failed rule that has no better one.
    pub(crate) fn fallback(&self) -> String {
        if self.message.is_empty() {
            format!("failed rule: {}", self.text)
        } else {
            self.message.clone()
        }
    }
}

/// Return the path as in causes; None if there is no such field, empty for an empty path.
pub(crate) fn field_path(mut schema: &Json, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            rest = after;
            name.to_owned()
        } else {
            let (name, after) = quoted(rest.strip_prefix("['")?)?;
            rest = after;
            name
        };
        if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
            schema = properties.get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else {
            schema = below(schema, "additionalProperties")?;
            out.push('[');
            out.push_str(&name);
            out.push(']');
        }
    }
    Some(out)
}

/// Parse a name in quotes and brackets after its opening quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => return Some((name, text.get(at + 1..)?.strip_prefix(']')?)),
            '\\' => name.push(match characters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                other @ ('\'' | '\\') => other,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}
