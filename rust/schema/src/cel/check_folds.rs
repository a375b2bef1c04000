//! What the macros give.

use std::sync::Arc;

use super::CompileError;
use super::ast::{Comprehension, Fold, Id};
use super::check::Checker;
use super::check_operators::{Found, no_overload, require};
use super::types::Type;

impl<'a> Checker<'a> {
    pub(super) fn opt_map(
        &mut self,
        flat: bool,
        of: Id,
        var: &'a str,
        body: Id,
        at: usize,
    ) -> Found {
        let inner = match self.of(of)? {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => Type::Dyn,
            other => return Err(no_overload(at, "optMap", &[other])),
        };
        self.locals.push((var, inner));
        let body = self.of(body);
        self.locals.pop();
        match body? {
            found if !flat => Ok(Type::optional(found)),
            found if found.is_dyn() || matches!(found, Type::Optional(_)) => Ok(found),
            other => Err(no_overload(at, "optFlatMap", &[other])),
        }
    }

    pub(super) fn fold(&mut self, fold: &'a Comprehension, at: usize) -> Found {
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
            let given = self.of(filter)?;
            require(given.fits(&Type::Bool), at, "_?_:_", &[given])?;
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
                    found => found,
                })
            }
            Fold::Map | Fold::TransformList => Ok(Type::list(body)),
            Fold::TransformMap => Ok(Type::map(key, body)),
            Fold::TransformMapEntry => match body {
                found if found.is_dyn() || matches!(found, Type::Map(..)) => Ok(found),
                other => Err(no_overload(at, "transformMapEntry", &[other])),
            },
            Fold::SortBy => Ok(Type::List(Arc::new(value))),
        }
    }
}
