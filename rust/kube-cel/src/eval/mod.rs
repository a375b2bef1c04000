//! Evaluation of a checked rule; every step is counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ast::{Ast, Expr, Field, Id};
use crate::check::Checked;
use crate::equality::Budget;
use crate::error::EvalError;
use crate::scope::{Scope, VARIABLES};
use crate::types::is_type_name;
use crate::value::{Evaluated, Key, Message, Value};
use crate::{authz, functions, operators};

mod folds;

/// The cost of a new list or map in steps, besides its elements.
const LIST_STEPS: u64 = 10;
const MAP_STEPS: u64 = 30;
/// The cost of a question to the authorizer.
const CHECK_STEPS: u64 = 350_000;

pub(crate) struct Evaluation<'p> {
    pub(crate) ast: &'p Ast,
    pub(crate) checked: &'p Checked,
    pub(crate) scope: &'p dyn Scope,
    pub(crate) locals: Vec<(&'p str, Value)>,
    pub(crate) budget: &'p mut Budget,
}

impl<'p> Evaluation<'p> {
    pub(crate) fn of(&mut self, id: Id) -> Evaluated {
        let ast = self.ast;
        let Some(node) = ast.nodes.get(id) else {
            return Err(EvalError::no_overload());
        };
        if let Expr::Literal(value) = &node.expr {
            return Ok(value.clone());
        }
        self.budget.charge(1)?;
        match &node.expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Ident(name) => self.ident(name),
            Expr::Select {
                of,
                field,
                test,
                optional,
            } => {
                if let Some(value) = self.variable(*of, field)? {
                    return Ok(match (test, optional) {
                        (true, _) => Value::Bool(true),
                        (false, true) => Value::some(value),
                        (false, false) => value,
                    });
                }
                let operand = self.of(*of)?;
                if *test {
                    return has(&operand, field);
                }
                select(&operand, &Key::String(field.as_str().into()), *optional)
            }
            Expr::Index(of, index, optional) => {
                let (operand, index) = (self.of(*of)?, self.of(*index)?);
                at_index(&operand, &index, *optional)
            }
            Expr::Call(function, target, args) => self.call(function, *target, args),
            Expr::Not(operand) => match self.of(*operand)? {
                Value::Bool(truth) => Ok(Value::Bool(!truth)),
                _ => Err(EvalError::no_overload()),
            },
            Expr::Negate(operand) => match self.of(*operand)? {
                Value::Int(number) => number
                    .checked_neg()
                    .map(Value::Int)
                    .ok_or_else(operators::overflow),
                Value::Double(number) => Ok(Value::Double(-number)),
                _ => Err(EvalError::no_overload()),
            },
            Expr::Binary(operator, left, right) => {
                let (left, right) = (self.of(*left)?, self.of(*right)?);
                operators::apply(*operator, &left, &right, self.budget)
            }
            Expr::And(parts) => self.junction(parts, false),
            Expr::Or(parts) => self.junction(parts, true),
            Expr::Ternary(condition, yes, no) => match self.of(*condition)? {
                Value::Bool(true) => self.of(*yes),
                Value::Bool(false) => self.of(*no),
                _ => Err(EvalError::no_overload()),
            },
            Expr::List(items) => {
                self.budget.charge(LIST_STEPS)?;
                let mut values = Vec::with_capacity(items.len());
                for (id, optional) in items {
                    values.extend(given(self.of(*id)?, *optional)?);
                }
                Ok(Value::list(values))
            }
            Expr::Map(entries) => self.map(entries),
            Expr::Fold(fold) => self.fold(fold),
            Expr::Message(name, fields) => self.message(name, fields),
            Expr::OptMap {
                flat,
                of,
                var,
                body,
            } => {
                let Value::Optional(inner) = self.of(*of)? else {
                    return Err(EvalError::no_overload());
                };
                let Some(inner) = inner else {
                    return Ok(Value::Optional(None));
                };
                let result = self.with(var, (*inner).clone(), *body)?;
                Ok(if *flat { result } else { Value::some(result) })
            }
        }
    }

    fn call(&mut self, function: &str, target: Option<Id>, args: &[Id]) -> Evaluated {
        let mut arguments = Vec::with_capacity(args.len() + 1);
        for id in target.iter().chain(args) {
            arguments.push(self.of(*id)?);
        }
        let last = if target.is_some() {
            args.first()
        } else {
            args.last()
        };
        if let Some((Value::Authz(check), rest)) = arguments.split_first() {
            if function == "check" {
                self.budget.charge(CHECK_STEPS)?;
            }
            return authz::call(function, check, rest, self.scope);
        }
        let pattern = last.and_then(|id| self.checked.patterns.get(id));
        functions::call(function, &arguments, pattern, self.budget)
    }

    /// Evaluate with one more variable.
    pub(crate) fn with(&mut self, name: &'p str, value: Value, body: Id) -> Evaluated {
        self.locals.push((name, value));
        let result = self.of(body);
        self.locals.pop();
        result
    }

    fn ident(&self, name: &str) -> Evaluated {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return Ok(value.clone());
        }
        match self.scope.value(name) {
            Some(value) => Ok(value),
            None if is_type_name(name) => Ok(Value::Type(name.into())),
            None => Err(EvalError::because(format!("no such attribute(s): {name}"))),
        }
    }

    /// Evaluate a selection that names an expression of the scope, such as `variables.x`.
    fn variable(&self, of: Id, field: &str) -> Result<Option<Value>, EvalError> {
        match self.ast.nodes.get(of).map(|node| &node.expr) {
            Some(Expr::Ident(name))
                if name == VARIABLES && !self.locals.iter().any(|(local, _)| local == name) =>
            {
                self.scope.variable(field)
            }
            _ => Ok(None),
        }
    }

    fn message(&mut self, name: &str, fields: &[Field]) -> Evaluated {
        self.budget.charge(MAP_STEPS)?;
        let mut members = BTreeMap::new();
        for field in fields {
            if let Some(value) = given(self.of(field.value)?, field.optional)? {
                members.insert(field.name.clone(), value);
            }
        }
        Ok(Value::Message(Arc::new(Message {
            name: name.into(),
            fields: members,
        })))
    }

    /// Evaluate `&&` and `||`: one operand that decides makes up for another that fails.
    fn junction(&mut self, parts: &[Id], decides: bool) -> Evaluated {
        let mut failed = None;
        for part in parts {
            match self.of(*part) {
                Ok(Value::Bool(truth)) if truth == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or_else(|| Some(EvalError::no_overload())),
                Err(EvalError::TooCostly) => return Err(EvalError::TooCostly),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn map(&mut self, entries: &[(Id, Id, bool)]) -> Evaluated {
        self.budget.charge(MAP_STEPS)?;
        let mut members = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.of(*key)?;
            let key = Key::of(&key).ok_or_else(|| {
                EvalError::because(format!("unsupported key type: {}", key.type_name()))
            })?;
            if let Some(value) = given(self.of(*value)?, *optional)?
                && members.insert(key, value).is_some()
            {
                return Err(EvalError::because("insert failed: key already exists"));
            }
        }
        Ok(Value::Map(Arc::new(members)))
    }
}

/// Return an element of a literal; with `?` it may be missing.
fn given(value: Value, optional: bool) -> Result<Option<Value>, EvalError> {
    match value {
        Value::Optional(inner) if optional => Ok(inner.map(|inner| (*inner).clone())),
        _ if optional => Err(EvalError::no_overload()),
        value => Ok(Some(value)),
    }
}

fn has(operand: &Value, field: &str) -> Evaluated {
    match operand {
        Value::Map(map) => Ok(Value::Bool(map.contains_key(&Key::String(field.into())))),
        Value::Message(message) => Ok(Value::Bool(message.fields.contains_key(field))),
        Value::Optional(None) => Ok(Value::Bool(false)),
        Value::Optional(Some(inner)) => has(inner, field),
        _ => Err(EvalError::no_overload()),
    }
}

fn select(operand: &Value, key: &Key, optional: bool) -> Evaluated {
    match operand {
        Value::Map(map) => part(map.get(key), optional, || {
            format!("no such key: {}", shown_key(key))
        }),
        Value::Message(message) => {
            let member = match key {
                Key::String(name) => message.fields.get(name.as_ref()),
                Key::Bool(_) | Key::Int(_) => None,
            };
            part(member, optional, || {
                format!("no such field: {}", shown_key(key))
            })
        }
        Value::Authz(check) => check
            .request_resource()
            .map(authz::value)
            .ok_or_else(EvalError::no_overload),
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => select(inner, key, true),
        _ => Err(EvalError::no_overload()),
    }
}

fn part(place: Option<&Value>, optional: bool, missing: impl FnOnce() -> String) -> Evaluated {
    match place.cloned() {
        place if optional => Ok(Value::Optional(place.map(Arc::new))),
        Some(value) => Ok(value),
        None => Err(EvalError::because(missing())),
    }
}

fn shown_key(key: &Key) -> String {
    match key {
        Key::Bool(truth) => truth.to_string(),
        Key::Int(number) => number.to_string(),
        Key::String(text) => text.chars().take(256).collect(),
    }
}

fn at_index(operand: &Value, index: &Value, optional: bool) -> Evaluated {
    let list = match operand {
        Value::List(list) => list,
        Value::Map(_) => {
            let key = Key::of(index).ok_or_else(EvalError::no_overload)?;
            return select(operand, &key, optional);
        }
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => return at_index(inner, index, true),
        _ => return Err(EvalError::no_overload()),
    };
    let Some(Key::Int(place)) = Key::of(index) else {
        return Err(EvalError::no_overload());
    };
    let item = usize::try_from(place)
        .ok()
        .and_then(|place| list.items.get(place));
    part(item, optional, || format!("index out of bounds: {place}"))
}
