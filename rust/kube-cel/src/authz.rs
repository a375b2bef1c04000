//! The functions of the authorizer.

use std::sync::Arc;

use crate::error::EvalError;
use crate::question::{Check, Question};
use crate::scope::Scope;
use crate::value::{Evaluated, Value};

pub(crate) fn value(check: Check) -> Value {
    Value::Authz(Arc::new(check))
}

/// Call a function of the authorizer.
pub(crate) fn call(name: &str, check: &Check, args: &[Value], scope: &dyn Scope) -> Evaluated {
    let texts: Option<Vec<&str>> = args
        .iter()
        .map(|arg| match arg {
            Value::String(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect();
    let texts = texts.ok_or_else(EvalError::no_overload)?;
    let outcome = match (name, check, texts.as_slice()) {
        ("path", Check::Authorizer(of, _), &[path]) => {
            if path.trim().is_empty() {
                return Err(EvalError::because("path must not be empty"));
            }
            Check::Path(Question {
                path: path.to_owned(),
                ..of.clone()
            })
        }
        ("group", Check::Authorizer(of, _), &[group]) => Check::Group(Question {
            group: group.to_owned(),
            ..of.clone()
        }),
        ("serviceAccount", Check::Authorizer(of, own), &[namespace, account]) => {
            if !is_name(account, true) {
                return Err(EvalError::because("Invalid service account name"));
            }
            if !is_name(namespace, false) {
                return Err(EvalError::because("Invalid service account namespace"));
            }
            let account = Some((namespace.to_owned(), account.to_owned()));
            let of = Question {
                account,
                ..of.clone()
            };
            Check::Authorizer(of, Arc::clone(own))
        }
        ("resource", Check::Group(of), &[resource]) => {
            if resource.trim().is_empty() {
                return Err(EvalError::because("resource must not be empty"));
            }
            Check::Resource(Question {
                resource: resource.to_owned(),
                ..of.clone()
            })
        }
        (_, Check::Resource(of), &[text]) if name != "check" => {
            Check::Resource(narrowed(of, name, text)?)
        }
        ("check", Check::Path(of) | Check::Resource(of), &[verb]) => {
            let question = Question {
                verb: verb.to_owned(),
                ..of.clone()
            };
            let decision = scope.authorize(&question);
            Check::Decision(decision.ok_or_else(|| EvalError::because("there is no authorizer"))?)
        }
        ("allowed", Check::Decision(of), []) => return Ok(Value::Bool(of.allowed)),
        ("reason", Check::Decision(of), []) => return Ok(Value::text(of.reason.as_str())),
        ("errored", Check::Decision(_), []) => return Ok(Value::Bool(false)),
        ("error", Check::Decision(_), []) => return Ok(Value::text("")),
        _ => return Err(EvalError::no_overload()),
    };
    Ok(value(outcome))
}

/// Return a question about a resource with one more part.
fn narrowed(of: &Question, name: &str, text: &str) -> Result<Question, EvalError> {
    let mut narrow = of.clone();
    match name {
        "subresource" => text.clone_into(&mut narrow.subresource),
        "namespace" => text.clone_into(&mut narrow.namespace),
        "name" => text.clone_into(&mut narrow.name),
        // Role-based rules do not look at selectors.
        "fieldSelector" | "labelSelector" => {}
        _ => return Err(EvalError::no_overload()),
    }
    Ok(narrow)
}

fn is_name(text: &str, dots: bool) -> bool {
    let fits = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || (dots && byte == b'.')
    };
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= 253
        && bytes.iter().copied().all(fits)
        && edge(bytes.first())
        && edge(bytes.last())
}
