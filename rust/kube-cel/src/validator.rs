//! Evaluation of the rules of a schema for an object.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::Value as Json;

use crate::compile::{Compiler, Node, Problem};
use crate::error::EvalError;
use crate::rule::{Program, Rule};
use crate::schema::{elements, members};
use crate::scope::RuleScope;
use crate::value::Value;

/// The maximum number of steps of all evaluations for one object.
const OBJECT_STEPS: u64 = 10_000_000;
/// The maximum length, in bytes, of a message made by a rule.
const MAX_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// A rule that failed for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field; empty for the object itself.
    pub field: String,
    /// The reason of the cause.
    pub reason: &'static str,
    /// The value to show, as JSON; empty for none.
    pub value: String,
    /// The message.
    pub message: String,
    /// Whether it is only a warning, because the value is unchanged.
    pub warning: bool,
}

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Validator {
    root: Option<Node>,
    problems: Vec<Problem>,
}

impl Validator {
    /// Compile the rules of a schema; `root` is for schemas of whole objects, whose rules see type and name.
    pub fn new(schema: &Json, root: bool) -> Self {
        let (root, problems) = Compiler::compile(schema, root);
        Self { root, problems }
    }

    /// The problems of the rules.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Return whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Evaluate the rules for an object and its state before an update.
    pub fn validate(&self, object: &Json, old: Option<&Json>) -> Vec<Finding> {
        let Some(root) = &self.root else {
            return Vec::new();
        };
        let mut run = Run {
            found: Vec::new(),
            left: OBJECT_STEPS,
        };
        let ratchet = Ratchet {
            current: old.map(|old| (object, old)),
            parent: None,
        };
        let _ = run.node(root, "", object, old, ratchet);
        run.found
    }
}

struct Run {
    found: Vec<Finding>,
    left: u64,
}

/// Whether to run the remaining rules.
type Flow = ControlFlow<()>;

const CONTINUE: Flow = ControlFlow::Continue(());
const BREAK: Flow = ControlFlow::Break(());

impl Run {
    fn node<'j>(
        &mut self,
        node: &Node,
        path: &str,
        value: &'j Json,
        old: Option<&'j Json>,
        ratchet: Ratchet<'j>,
    ) -> Flow {
        if value.is_null() {
            return CONTINUE;
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, path, value, old, ratchet)?;
        for (name, member) in members(value) {
            let (child, at) = match (node.properties.get(name), &node.additional) {
                (Some(child), _) if path.is_empty() => (child, name.clone()),
                (Some(child), _) => (child, format!("{path}.{name}")),
                (None, Some(child)) => (child.as_ref(), format!("{path}[{name}]")),
                (None, None) => continue,
            };
            let old = old.and_then(|old| old.get(name));
            // Both are converted to the version of the request.
            let hidden = ratchet.parent.is_none() && matches!(name.as_str(), "apiVersion" | "kind");
            let ratchet = if hidden {
                Ratchet {
                    current: None,
                    parent: None,
                }
            } else {
                ratchet.below(member, old)
            };
            self.node(child, &at, member, old, ratchet)?;
        }
        if let Some(items) = &node.items {
            let before = node
                .keys
                .as_ref()
                .zip(old)
                .map(|(keys, old)| (keys, by_keys(keys, old)));
            for (index, item) in elements(value).enumerate() {
                let old = before
                    .as_ref()
                    .and_then(|(keys, before)| before.get(&identity(keys, item)).copied());
                let ratchet = ratchet.below(item, old);
                if self.node(items, &format!("{path}[{index}]"), item, old, ratchet) == BREAK {
                    return BREAK;
                }
            }
        }
        CONTINUE
    }

    fn rules<'j>(
        &mut self,
        node: &Node,
        path: &str,
        value: &'j Json,
        old: Option<&'j Json>,
        ratchet: Ratchet<'j>,
    ) -> Flow {
        let Some(shape) = node.shape.as_ref().filter(|_| !node.rules.is_empty()) else {
            return CONTINUE;
        };
        let this = shape.value(value);
        let uses_old = node.rules.iter().any(|rule| {
            rule.program.uses_old_self()
                || rule
                    .message_program
                    .as_ref()
                    .is_some_and(Program::uses_old_self)
        });
        let before = old.filter(|_| uses_old).map(|old| shape.value(old));
        for rule in &node.rules {
            if rule.program.uses_old_self() && before.is_none() && !rule.optional_old {
                continue;
            }
            let optional;
            let before = if rule.optional_old {
                optional = Value::Optional(before.clone().map(Into::into));
                Some(&optional)
            } else {
                before.as_ref()
            };
            self.rule(rule, node, path, value, (&this, before), ratchet)?;
        }
        CONTINUE
    }

    fn rule(
        &mut self,
        rule: &Rule,
        node: &Node,
        path: &str,
        value: &Json,
        (this, old): (&Value, Option<&Value>),
        ratchet: Ratchet<'_>,
    ) -> Flow {
        let limited = self.left;
        let (result, left) = rule.program.run(&RuleScope { this, old }, self.left);
        self.left = left;
        let failed = match result {
            Ok(Value::Bool(true)) => return CONTINUE,
            Ok(_) => None,
            Err(EvalError::TooCostly) if left == 0 || limited == 0 => {
                Some((OUT_OF_BUDGET.to_owned(), BREAK))
            }
            Err(EvalError::TooCostly) => {
                let why = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    EvalError::TooCostly,
                    rule.name()
                );
                Some((why, BREAK))
            }
            Err(EvalError::Failed(why)) if why.starts_with("no such overload") => {
                let why = format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    rule.name()
                );
                Some((why, CONTINUE))
            }
            Err(EvalError::Failed(why)) => {
                Some((format!("{why} evaluating rule: {}", rule.name()), CONTINUE))
            }
        };
        if let Some((message, flow)) = failed {
            return self.fail(path.to_owned(), node, message, flow);
        }
        let message = match self.message(rule, this, old) {
            Ok(message) => message.unwrap_or_else(|| rule.fallback()),
            Err(message) => {
                return self.fail(joined(path, &rule.field), node, message, BREAK);
            }
        };
        let whole = value.is_object() || value.is_array();
        self.found.push(Finding {
            field: joined(path, &rule.field),
            reason: rule.reason,
            value: if whole {
                String::new()
            } else {
                value.to_string()
            },
            message,
            warning: !rule.program.uses_old_self() && ratchet.unchanged(),
        });
        CONTINUE
    }

    /// Report an evaluation that failed.
    fn fail(&mut self, field: String, node: &Node, message: String, flow: Flow) -> Flow {
        self.found.push(Finding {
            field,
            reason: "FieldValueInvalid",
            value: node.kind.clone(),
            message,
            warning: false,
        });
        flow
    }

    /// Return the message made by the rule; None if it is unusable, an error if it takes too long.
    fn message(
        &mut self,
        rule: &Rule,
        this: &Value,
        old: Option<&Value>,
    ) -> Result<Option<String>, String> {
        let Some(program) = &rule.message_program else {
            return Ok(None);
        };
        let (outcome, left) = program.run(&RuleScope { this, old }, self.left);
        self.left = left;
        match outcome {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let fits = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(fits.then(|| text.to_owned()))
            }
            Err(EvalError::TooCostly) => Err(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            ),
            Ok(_) | Err(EvalError::Failed(_)) => Ok(None),
        }
    }
}

fn joined(path: &str, below: &str) -> String {
    match (path, below) {
        ("", _) => below.to_owned(),
        (_, "") => path.to_owned(),
        _ => format!("{path}.{below}"),
    }
}

/// A new value and the old one.
type Pair<'j> = (&'j Json, &'j Json);

/// The old value, or that of the nearest part above whose old value is known.
#[derive(Clone, Copy)]
struct Ratchet<'j> {
    current: Option<Pair<'j>>,
    parent: Option<Pair<'j>>,
}

impl<'j> Ratchet<'j> {
    /// Return whether nothing changed, so that the value was invalid before.
    fn unchanged(self) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|(new, old)| new == old)
    }

    fn below(self, new: &'j Json, old: Option<&'j Json>) -> Self {
        match self.current {
            None => self,
            Some(_) => Self {
                current: old.map(|old| (new, old)),
                parent: self.current,
            },
        }
    }
}

/// Return the keys of an element in a list of type map, as JSON.
fn identity(keys: &[String], item: &Json) -> Vec<Option<String>> {
    keys.iter()
        .map(|key| item.get(key).map(Json::to_string))
        .collect()
}

fn by_keys<'j>(keys: &[String], list: &'j Json) -> BTreeMap<Vec<Option<String>>, &'j Json> {
    elements(list)
        .map(|item| (identity(keys, item), item))
        .collect()
}
