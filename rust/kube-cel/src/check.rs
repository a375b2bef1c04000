//! The type check of a rule: every name is known, every operator and function accepts its operands.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::pattern::Pattern;

use crate::ast::{Ast, Comprehension, Expr, Field, Fold, Id};
use crate::convert;
use crate::error::CompileError;
use crate::signatures;
use crate::types::{
    self, Found, Type, is_type_name, literal, no_overload, require, shown_call, undeclared,
};
use crate::value::Value;

/// The result of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) result: Type,
    pub(crate) uses_old_self: bool,
    /// The literal patterns, by the node of the literal.
    pub(crate) patterns: HashMap<Id, Pattern>,
}

/// Check an expression that may use these names.
pub(crate) fn check(ast: &Ast, names: &Names) -> Result<Checked, CompileError> {
    let mut checker = Checker {
        ast,
        names,
        locals: Vec::new(),
        uses_old_self: false,
        patterns: HashMap::new(),
    };
    let result = checker.of(ast.root)?;
    Ok(Checked {
        result,
        uses_old_self: checker.uses_old_self,
        patterns: checker.patterns,
    })
}

/// The names of messages.
const OBJECT: &str = "Object";
const OBJECT_PART: &str = "Object.";
pub(crate) const PATCH: &str = "JSONPatch";
/// The beginning of the names of functions that are known where patches are.
const PATCH_FUNCTIONS: &str = "jsonpatch.";
/// The fields of a patch that are strings.
const PATCH_TEXTS: [&str; 3] = ["op", "path", "from"];

/// The names that an expression may use besides functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// The types of variables.
    pub(crate) types: BTreeMap<String, Type>,
    /// Whether `Object{…}` and `JSONPatch{…}` are known.
    pub(crate) messages: bool,
}

impl Names {
    /// Return the names of a rule: `self` and `oldSelf`.
    pub(crate) fn of_rule(this: &Type, old: &Type) -> Self {
        let named = [("self", this), ("oldSelf", old)];
        Self {
            types: named
                .into_iter()
                .map(|(name, of)| (name.to_owned(), of.clone()))
                .collect(),
            messages: false,
        }
    }
}

struct Checker<'a> {
    ast: &'a Ast,
    names: &'a Names,
    locals: Vec<(&'a str, Type)>,
    uses_old_self: bool,
    patterns: HashMap<Id, Pattern>,
}

impl<'a> Checker<'a> {
    fn of(&mut self, id: Id) -> Found {
        let Some(node) = self.ast.nodes.get(id) else {
            return Ok(Type::Dyn);
        };
        match &node.expr {
            Expr::Literal(value) => Ok(literal(value)),
            Expr::Ident(name) => self.ident(name, node.at),
            Expr::Select {
                of,
                field,
                test,
                optional,
            } => {
                let operand = self.of(*of)?;
                let member = types::field(operand, field, *optional, node.at)?;
                Ok(if *test { Type::Bool } else { member })
            }
            Expr::Index(of, index, optional) => self.index(*of, *index, *optional, node.at),
            Expr::Call(function, target, args) => self.call(function, *target, args, node.at),
            Expr::Not(operand) => {
                let operand_type = self.of(*operand)?;
                require(
                    operand_type.fits(&Type::Bool),
                    node.at,
                    "!_",
                    &[operand_type],
                )?;
                Ok(Type::Bool)
            }
            Expr::Negate(operand) => {
                let operand_type = self.of(*operand)?;
                let fits = matches!(operand_type, Type::Int | Type::Double | Type::Dyn);
                require(fits, node.at, "-_", std::slice::from_ref(&operand_type))?;
                Ok(operand_type)
            }
            Expr::Binary(operator, left, right) => {
                let pair = [self.of(*left)?, self.of(*right)?];
                let result = types::binary(*operator, &pair[0], &pair[1]);
                require(result.is_some(), node.at, operator.name(), &pair)?;
                Ok(result.unwrap_or(Type::Dyn))
            }
            Expr::And(parts) | Expr::Or(parts) => {
                let name = if matches!(node.expr, Expr::And(_)) {
                    "_&&_"
                } else {
                    "_||_"
                };
                for part in parts {
                    let part_type = self.of(*part)?;
                    require(part_type.fits(&Type::Bool), node.at, name, &[part_type])?;
                }
                Ok(Type::Bool)
            }
            Expr::Ternary(condition, yes, no) => {
                let branches = [self.of(*condition)?, self.of(*yes)?, self.of(*no)?];
                let fits = branches[0].fits(&Type::Bool) && branches[1].fits(&branches[2]);
                require(fits, node.at, "_?_:_", &branches)?;
                let [_, yes, no] = branches;
                Ok(yes.join(&no))
            }
            Expr::List(items) => {
                let mut item_type: Option<Type> = None;
                for (item, optional) in items {
                    let type_ = self.element(*item, *optional)?;
                    item_type = Some(self.same(item_type, type_, *item)?);
                }
                Ok(Type::list(item_type.unwrap_or(Type::Dyn)))
            }
            Expr::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for (key, value, optional) in entries {
                    let key_type = self.of(*key)?;
                    keys = Some(self.same(keys, key_type, *key)?);
                    let value_type = self.element(*value, *optional)?;
                    values = Some(self.same(values, value_type, *value)?);
                }
                Ok(Type::map(
                    keys.unwrap_or(Type::Dyn),
                    values.unwrap_or(Type::Dyn),
                ))
            }
            Expr::Fold(fold) => self.fold(fold, node.at),
            Expr::Message(name, fields) => self.message(name, fields, node.at),
            Expr::OptMap {
                flat,
                of,
                var,
                body,
            } => self.opt_map(*flat, *of, var, *body, node.at),
        }
    }

    fn ident(&mut self, name: &str, at: usize) -> Found {
        if let Some((_, type_)) = self.locals.iter().rev().find(|(local, _)| *local == name) {
            return Ok(type_.clone());
        }
        match self.names.types.get(name) {
            Some(type_) => {
                self.uses_old_self |= name == "oldSelf";
                Ok(type_.clone())
            }
            None if is_type_name(name) => Ok(Type::Type),
            None => Err(undeclared(at, name)),
        }
    }

    fn message(&mut self, name: &str, fields: &[Field], at: usize) -> Found {
        let is_patch = name == PATCH;
        let is_object = name == OBJECT || name.starts_with(OBJECT_PART);
        if !self.names.messages || !(is_patch || is_object) {
            return Err(undeclared(at, name));
        }
        for field in fields {
            let type_ = self.element(field.value, field.optional)?;
            let name = field.name.as_str();
            if is_patch && name != "value" {
                let why = if !PATCH_TEXTS.contains(&name) {
                    format!("undefined field '{name}'")
                } else if !type_.fits(&Type::String) {
                    format!(
                        "expected type of field '{name}' is 'string' but provided type is '{type_}'"
                    )
                } else {
                    continue;
                };
                return Err(CompileError::at(field.at, why));
            }
        }
        Ok(Type::Message(name.into()))
    }

    fn index(&mut self, of: Id, index: Id, optional: bool, at: usize) -> Found {
        let pair = [self.of(of)?, self.of(index)?];
        let (inner, was_optional) = match &pair[0] {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let result = match inner {
            Type::Dyn => Type::Dyn,
            Type::List(item) if matches!(pair[1], Type::Int | Type::Dyn) => (*item).clone(),
            Type::Map(key, value) if pair[1].fits(&key) => (*value).clone(),
            _ => {
                return Err(no_overload(
                    at,
                    if optional { "_[?_]" } else { "_[_]" },
                    &pair,
                ));
            }
        };
        Ok(if optional || was_optional {
            Type::optional(result)
        } else {
            result
        })
    }

    fn call(&mut self, function: &str, target: Option<Id>, args: &[Id], at: usize) -> Found {
        let mut arguments = Vec::with_capacity(args.len() + 1);
        for id in target.iter().chain(args) {
            arguments.push(match self.ast.nodes.get(*id).map(|node| &node.expr) {
                Some(Expr::List(items)) if function == "format" => self.mixed(items)?,
                _ => self.of(*id)?,
            });
        }
        if !signatures::is_known(function) {
            return Err(undeclared(at, function));
        }
        if !self.names.messages && function.starts_with(PATCH_FUNCTIONS) {
            let space = PATCH_FUNCTIONS.trim_end_matches('.');
            return Err(undeclared(at.saturating_sub(function.len()), space));
        }
        let Some(result) = signatures::result(function, target.is_some(), &arguments) else {
            let text = shown_call(target.is_some(), &arguments);
            let why = format!("found no matching overload for '{function}' applied to '{text}'");
            return Err(CompileError::at(at, why));
        };
        let last = if target.is_some() {
            args.first()
        } else {
            args.last()
        };
        if let Some(&last) = last {
            self.literal_argument(function, last)?;
        }
        Ok(result)
    }

    /// Check a literal that must be well formed.
    fn literal_argument(&mut self, function: &str, id: Id) -> Result<(), CompileError> {
        let Some(node) = self.ast.nodes.get(id) else {
            return Ok(());
        };
        let Expr::Literal(Value::String(text)) = &node.expr else {
            return Ok(());
        };
        let fits = match function {
            "matches" | "find" | "findAll" => match Pattern::new(text) {
                Ok(pattern) => {
                    self.patterns.insert(id, pattern);
                    true
                }
                Err(_) => false,
            },
            "duration" => convert::duration(text).is_some(),
            "timestamp" => convert::timestamp(text).is_some(),
            _ => true,
        };
        if fits {
            return Ok(());
        }
        Err(CompileError::at(
            node.at,
            format!("invalid {function} argument"),
        ))
    }

    fn opt_map(&mut self, flat: bool, of: Id, var: &'a str, body: Id, at: usize) -> Found {
        let inner = match self.of(of)? {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            other => return Err(no_overload(at, "optMap", &[other])),
        };
        self.locals.push((var, inner));
        let body = self.of(body);
        self.locals.pop();
        match body? {
            result if !flat => Ok(Type::optional(result)),
            result if result.is_dyn() || matches!(result, Type::Optional(_)) => Ok(result),
            other => Err(no_overload(at, "optFlatMap", &[other])),
        }
    }

    fn fold(&mut self, fold: &'a Comprehension, at: usize) -> Found {
        let over = self.of(fold.over)?;
        let (key, value) = match &over {
            Type::List(item) => (Type::Int, (**item).clone()),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            other => {
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                return Err(CompileError::at(self.at(fold.over), why));
            }
        };
        let depth = self.locals.len();
        match &fold.second {
            Some(second) => self.locals.extend([
                (fold.var.as_str(), key.clone()),
                (second.as_str(), value.clone()),
            ]),
            None if matches!(over, Type::Map(..)) => self.locals.push((&fold.var, key.clone())),
            None => self.locals.push((&fold.var, value.clone())),
        }
        if let Some(filter) = fold.filter {
            let filter_type = self.of(filter)?;
            require(filter_type.fits(&Type::Bool), at, "_?_:_", &[filter_type])?;
        }
        let body = self.of(fold.body)?;
        self.locals.truncate(depth);
        match fold.fold {
            Fold::All | Fold::Exists | Fold::ExistsOne | Fold::Filter => {
                let name = match fold.fold {
                    Fold::All => "_&&_",
                    Fold::Exists => "_||_",
                    _ => "_?_:_",
                };
                require(body.fits(&Type::Bool), at, name, &[body])?;
                Ok(match over {
                    _ if fold.fold != Fold::Filter => Type::Bool,
                    Type::Map(key, _) => Type::List(key),
                    result => result,
                })
            }
            Fold::Map | Fold::TransformList => Ok(Type::list(body)),
            Fold::TransformMap => Ok(Type::map(key, body)),
            Fold::TransformMapEntry => match body {
                result if result.is_dyn() || matches!(result, Type::Map(..)) => Ok(result),
                other => Err(no_overload(at, "transformMapEntry", &[other])),
            },
            Fold::SortBy => Ok(Type::List(Arc::new(value))),
        }
    }

    /// Return the type of an element or entry; after a `?` that inside the optional.
    fn element(&mut self, id: Id, optional: bool) -> Found {
        match self.of(id)? {
            Type::Optional(inner) if optional => Ok((*inner).clone()),
            other if optional && !other.is_dyn() => {
                let why = format!("expected type 'optional_type({other})' but found '{other}'");
                Err(CompileError::at(self.at(id), why))
            }
            plain => Ok(plain),
        }
    }

    /// Check a list whose elements may have different types, unlike other lists.
    fn mixed(&mut self, items: &'a [(Id, bool)]) -> Found {
        for (item, optional) in items {
            self.element(*item, *optional)?;
        }
        Ok(Type::list(Type::Dyn))
    }

    /// Join the types of elements of a literal, which must be the same.
    fn same(&self, before: Option<Type>, next: Type, id: Id) -> Found {
        match before {
            None => Ok(next),
            Some(before) if before.fits(&next) => Ok(before.join(&next)),
            Some(before) => {
                let why = format!("expected type '{before}' but found '{next}'");
                Err(CompileError::at(self.at(id), why))
            }
        }
    }

    fn at(&self, id: Id) -> usize {
        self.ast.nodes.get(id).map_or(0, |node| node.at)
    }
}
