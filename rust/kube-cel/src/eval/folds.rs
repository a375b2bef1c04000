//! The macros that iterate over a list or a map.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Evaluation;
use crate::ast::{Comprehension, Fold};
use crate::error::EvalError;
use crate::value::{Evaluated, Key, Value};

/// The cost of each iteration in steps, besides what is evaluated in it.
const TURN_STEPS: u64 = 2;

impl<'p> Evaluation<'p> {
    pub(crate) fn fold(&mut self, fold: &'p Comprehension) -> Evaluated {
        match self.of(fold.over)? {
            Value::List(list) => self.turns(
                fold,
                list.items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| (index_value(index), item)),
                false,
            ),
            Value::Map(map) => self.turns(
                fold,
                map.iter().map(|(key, value)| (key.value(), value)),
                true,
            ),
            _ => Err(EvalError::no_overload()),
        }
    }

    fn turns<'v>(
        &mut self,
        fold: &'p Comprehension,
        entries: impl Iterator<Item = (Value, &'v Value)>,
        over_map: bool,
    ) -> Evaluated {
        let mut state = State::default();
        let depth = self.locals.len();
        for (key, value) in entries {
            self.budget.charge(TURN_STEPS)?;
            match &fold.second {
                Some(second) => self.locals.extend([
                    (fold.var.as_str(), key.clone()),
                    (second.as_str(), value.clone()),
                ]),
                None if over_map => self.locals.push((&fold.var, key.clone())),
                None => self.locals.push((&fold.var, value.clone())),
            }
            let element = if over_map { key.clone() } else { value.clone() };
            let turn = self.turn(fold, &key, element, &mut state);
            self.locals.truncate(depth);
            if turn? {
                break;
            }
        }
        state.result(fold.fold)
    }

    /// Do one iteration; return whether it decides the result.
    fn turn(
        &mut self,
        fold: &'p Comprehension,
        key: &Value,
        element: Value,
        state: &mut State,
    ) -> Result<bool, EvalError> {
        if let Some(filter) = fold.filter
            && !truth(&self.of(filter)?)?
        {
            return Ok(false);
        }
        match fold.fold {
            Fold::All | Fold::Exists => {
                let decides = fold.fold == Fold::Exists;
                match self.of(fold.body).and_then(|result| truth(&result)) {
                    Ok(result) if result == decides => {
                        state.decided = true;
                        return Ok(true);
                    }
                    Ok(_) => {}
                    Err(EvalError::TooCostly) => return Err(EvalError::TooCostly),
                    Err(error) => state.failed = state.failed.take().or(Some(error)),
                }
            }
            Fold::ExistsOne => state.count += usize::from(truth(&self.of(fold.body)?)?),
            Fold::Filter => {
                if truth(&self.of(fold.body)?)? {
                    state.items.push(element);
                }
            }
            Fold::Map | Fold::TransformList => {
                state.items.push(self.of(fold.body)?);
            }
            Fold::SortBy => {
                state.keyed.push((self.of(fold.body)?, element));
            }
            Fold::TransformMap => {
                let result = self.of(fold.body)?;
                state
                    .map
                    .insert(Key::of(key).ok_or_else(EvalError::no_overload)?, result);
            }
            Fold::TransformMapEntry => {
                let Value::Map(entries) = self.of(fold.body)? else {
                    return Err(EvalError::no_overload());
                };
                self.budget.charge(entries.len() as u64)?;
                for (key, value) in entries.iter() {
                    if state.map.insert(key.clone(), value.clone()).is_some() {
                        return Err(EvalError::because("insert failed: key already exists"));
                    }
                }
            }
        }
        Ok(false)
    }
}

#[derive(Default)]
struct State {
    decided: bool,
    failed: Option<EvalError>,
    count: usize,
    items: Vec<Value>,
    keyed: Vec<(Value, Value)>,
    map: BTreeMap<Key, Value>,
}

impl State {
    fn result(self, fold: Fold) -> Evaluated {
        match fold {
            Fold::All | Fold::Exists => {
                let decides = fold == Fold::Exists;
                match self.failed {
                    Some(error) if !self.decided => Err(error),
                    _ => Ok(Value::Bool(self.decided == decides)),
                }
            }
            Fold::ExistsOne => Ok(Value::Bool(self.count == 1)),
            Fold::Map | Fold::Filter | Fold::TransformList => Ok(Value::list(self.items)),
            Fold::TransformMap | Fold::TransformMapEntry => Ok(Value::Map(Arc::new(self.map))),
            Fold::SortBy => {
                let mut keyed = self.keyed;
                let sortable = keyed
                    .windows(2)
                    .all(|pair| matches!(pair, [(a, _), (b, _)] if a.order(b).is_some()));
                if !sortable {
                    return Err(EvalError::no_overload());
                }
                keyed.sort_by(|(a, _), (b, _)| a.order(b).unwrap_or(std::cmp::Ordering::Equal));
                Ok(Value::list(
                    keyed.into_iter().map(|(_, item)| item).collect(),
                ))
            }
        }
    }
}

fn truth(value: &Value) -> Result<bool, EvalError> {
    match value {
        Value::Bool(truth) => Ok(*truth),
        _ => Err(EvalError::no_overload()),
    }
}

fn index_value(index: usize) -> Value {
    Value::Int(i64::try_from(index).unwrap_or(i64::MAX))
}
