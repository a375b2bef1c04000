//! Macros: calls whose arguments name variables.

use super::Parser;
use crate::ast::{Comprehension, Expr, Fold, Id};
use crate::error::CompileError;

/// A call that may be a macro.
pub(crate) struct Called {
    pub(crate) at: usize,
    pub(crate) target: Option<Id>,
    pub(crate) args: Vec<Id>,
}

/// Create the node of a macro; return the call if it is not a macro.
pub(crate) fn expand(
    parser: &mut Parser<'_>,
    function: &str,
    called: Called,
) -> Result<Result<Id, Called>, CompileError> {
    let Called { at, target, args } = called;
    let expr = match (function, target, args.as_slice()) {
        ("has", None, &[field]) => has(parser, field)?,
        ("optMap" | "optFlatMap", Some(of), &[var, body]) => {
            let flat = function == "optFlatMap";
            let var = variable(parser, var)?;
            Expr::OptMap {
                flat,
                of,
                var,
                body,
            }
        }
        (_, Some(over), &[_, _, ..]) => match fold(parser, function, over, &args)? {
            Some(fold) => Expr::Fold(Box::new(fold)),
            None => return Ok(Err(Called { at, target, args })),
        },
        _ => return Ok(Err(Called { at, target, args })),
    };
    parser.add(at, expr).map(Ok)
}

fn has(parser: &Parser<'_>, field: Id) -> Result<Expr, CompileError> {
    match parser.expr(field) {
        Some(Expr::Select {
            of,
            field,
            optional,
            ..
        }) => Ok(Expr::Select {
            of: *of,
            field: field.clone(),
            test: true,
            optional: *optional,
        }),
        _ => Err(CompileError::at(
            parser.place(field),
            "invalid argument to has() macro".to_owned(),
        )),
    }
}

fn fold(
    parser: &Parser<'_>,
    function: &str,
    over: Id,
    args: &[Id],
) -> Result<Option<Comprehension>, CompileError> {
    let (fold, second, filtered) = match (function, args.len()) {
        ("all", 2) => (Fold::All, false, false),
        ("all", 3) => (Fold::All, true, false),
        ("exists", 2) => (Fold::Exists, false, false),
        ("exists", 3) => (Fold::Exists, true, false),
        ("exists_one" | "existsOne", 2) => (Fold::ExistsOne, false, false),
        ("exists_one" | "existsOne", 3) => (Fold::ExistsOne, true, false),
        ("map", 2) => (Fold::Map, false, false),
        ("map", 3) => (Fold::Map, false, true),
        ("filter", 2) => (Fold::Filter, false, false),
        ("sortBy", 2) => (Fold::SortBy, false, false),
        ("transformList", 3) => (Fold::TransformList, true, false),
        ("transformList", 4) => (Fold::TransformList, true, true),
        ("transformMap", 3) => (Fold::TransformMap, true, false),
        ("transformMap", 4) => (Fold::TransformMap, true, true),
        ("transformMapEntry", 3) => (Fold::TransformMapEntry, true, false),
        ("transformMapEntry", 4) => (Fold::TransformMapEntry, true, true),
        _ => return Ok(None),
    };
    let mut rest = args.iter().copied();
    let mut take = || rest.next().unwrap_or(over);
    let var = variable(parser, take())?;
    let second = if second {
        Some(variable(parser, take())?)
    } else {
        None
    };
    let filter = filtered.then(&mut take);
    let body = take();
    Ok(Some(Comprehension {
        fold,
        over,
        var,
        second,
        filter,
        body,
    }))
}

fn variable(parser: &Parser<'_>, id: Id) -> Result<String, CompileError> {
    match parser.expr(id) {
        Some(Expr::Ident(name)) => Ok(name.clone()),
        _ => Err(CompileError::at(
            parser.place(id),
            "argument must be a simple name".to_owned(),
        )),
    }
}
