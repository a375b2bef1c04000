//! The expressions of an admission policy: they see the request and share variables, which are evaluated on demand.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::Value as Json;

use crate::authz;
use crate::check::{Names, PATCH};
use crate::error::EvalError;
use crate::json;
use crate::question::{Authz, Check, Decision, Question};
use crate::rule::Program;
use crate::schema::{self, Shape};
use crate::scope::{Scope, VARIABLES};
use crate::types::{ObjectType, Type};
use crate::value::Value;

/// The maximum nesting of variables within each other, in levels of their expressions.
const MAX_DEPTH: usize = 1_000;

const GVK: &str = r#"{"type":"object","properties":{"group":{"type":"string"},"version":{"type":"string"},"kind":{"type":"string"}}}"#;
const GVR: &str = r#"{"type":"object","properties":{"group":{"type":"string"},"version":{"type":"string"},"resource":{"type":"string"}}}"#;
const USER: &str = r#"{"type":"object","properties":{"username":{"type":"string"},"uid":{"type":"string"},
 "groups":{"type":"array","items":{"type":"string"}},
 "extra":{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}}}}"#;
const NAMESPACE: &str = r#"{"type":"object","properties":{
 "metadata":{"type":"object","plainNames":true,"properties":{"name":{"type":"string"},"generateName":{"type":"string"},
  "namespace":{"type":"string"},"labels":{"type":"object","additionalProperties":{"type":"string"}},
  "annotations":{"type":"object","additionalProperties":{"type":"string"}},"UID":{"type":"string"},
  "creationTimestamp":{"type":"string","format":"date-time"},"deletionGracePeriodSeconds":{"type":"integer"},
  "deletionTimestamp":{"type":"string","format":"date-time"},"generation":{"type":"integer"},
  "resourceVersion":{"type":"string"},"finalizers":{"type":"array","items":{"type":"string"}}}},
 "spec":{"type":"object","properties":{"finalizers":{"type":"array","items":{"type":"string"}}}},
 "status":{"type":"object","properties":{"phase":{"type":"string"},"conditions":{"type":"array","items":
  {"type":"object","properties":{"status":{"type":"string"},"type":{"type":"string"},"message":{"type":"string"},
   "reason":{"type":"string"},"lastTransitionTime":{"type":"string","format":"date-time"}}}}}}}}"#;

static REQUEST_SHAPE: LazyLock<Option<Arc<Shape>>> = LazyLock::new(|| {
    let text = r#"{"type":"string"}"#;
    shape(&format!(
        r#"{{"type":"object","plainNames":true,"properties":{{"kind":{GVK},"resource":{GVR},"subResource":{text},"requestKind":{GVK},
 "requestResource":{GVR},"requestSubResource":{text},"name":{text},"namespace":{text},"operation":{text},
 "userInfo":{USER},"dryRun":{{"type":"boolean"}},"options":{{"type":"any"}}}}}}"#
    ))
});
static NAMESPACE_SHAPE: LazyLock<Option<Arc<Shape>>> = LazyLock::new(|| shape(NAMESPACE));

fn shape(schema: &str) -> Option<Arc<Shape>> {
    Shape::of(&serde_json::from_str(schema).ok()?, false)
}

/// The type that an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// Any type.
    Any,
    /// `bool`
    Bool,
    /// `string`
    String,
    /// `string` or null
    StringOrNull,
    /// `Object`
    Object,
    /// A list of `JSONPatch`
    Patches,
}

impl Returns {
    /// Return an error unless the type is one of the wanted ones.
    fn check(self, actual: &Type) -> Result<(), String> {
        let message = |name: &str| Type::Message(name.into());
        let wanted = match self {
            Self::Any => return Ok(()),
            Self::Bool => Type::Bool,
            Self::String => Type::String,
            Self::StringOrNull if matches!(actual, Type::String | Type::Null) => return Ok(()),
            Self::StringOrNull => {
                return Err(format!(
                    "must evaluate to one of [string null_type] but got {actual}"
                ));
            }
            Self::Object => message("Object"),
            Self::Patches => Type::list(message(PATCH)),
        };
        if actual.is_exactly(&wanted) {
            return Ok(());
        }
        Err(format!("must evaluate to {wanted} but got {actual}"))
    }
}

/// An expression, or the message why it does not compile.
type Compiled = Result<Program, String>;

/// Expressions of a policy that are evaluated together.
#[derive(Debug)]
pub struct Expressions {
    variables: HashMap<String, Compiled>,
    variable_errors: Vec<Option<String>>,
    evaluated: Vec<(String, Returns, Compiled)>,
}

/// What expressions see.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The object, or `null`.
    pub object: &'a Json,
    /// The object before, or `null`.
    pub old: &'a Json,
    /// The request.
    pub request: &'a Json,
    /// The namespace, or `null`.
    pub namespace: &'a Json,
    /// The parameters, or `null`.
    pub params: &'a Json,
}

/// A result, or the message of the error.
pub type Outcome = Result<Json, String>;

/// The results of all expressions, and the steps left; None if there were not enough.
pub type Evaluated = Option<(Vec<Outcome>, u64)>;

impl Expressions {
    /// Compile expressions with the names and texts of their variables.
    ///
    /// `params` and `authorizer` say whether these names are known; variables always know the authorizer. `object` is
    /// the schema of the objects, to check types.
    pub fn new(
        expressions: Vec<(String, Returns)>,
        variables: Vec<(String, String)>,
        params: bool,
        authorizer: bool,
        object: Option<&Json>,
    ) -> Self {
        let known = object.and_then(|schema| Shape::of(schema, false));
        let object = known.map_or(Type::Dyn, |shape| shape.of.clone());
        let of = |shape: &Option<Arc<Shape>>| shape.as_ref().map_or(Type::Dyn, |it| it.of.clone());
        let mut types: BTreeMap<String, Type> = BTreeMap::new();
        types.insert("object".to_owned(), object.clone());
        types.insert("oldObject".to_owned(), object);
        types.insert("request".to_owned(), of(&REQUEST_SHAPE));
        types.insert("namespaceObject".to_owned(), of(&NAMESPACE_SHAPE));
        types.insert("authorizer".to_owned(), Type::Authz(Authz::Authorizer));
        if params {
            types.insert("params".to_owned(), Type::Dyn);
        }
        let mut names = Names {
            types,
            messages: false,
        };
        let mut fields: BTreeMap<String, Type> = BTreeMap::new();
        let mut programs = HashMap::new();
        let mut variable_errors = Vec::new();
        for (name, text) in variables {
            declare(&mut names, &fields);
            let program = Program::checked(&text, &names);
            let of = program.as_ref().map_or(Type::Dyn, |of| plain(of.result()));
            fields.insert(name.clone(), of);
            variable_errors.push(program.as_ref().err().cloned());
            programs.insert(name, program);
        }
        declare(&mut names, &fields);
        if !authorizer {
            names.types.remove("authorizer");
        }
        let expressions = expressions.into_iter().map(|(text, returns)| {
            names.messages = matches!(returns, Returns::Object | Returns::Patches);
            let program = Program::checked(&text, &names)
                .and_then(|program| returns.check(program.result()).map(|()| program));
            (text, returns, program)
        });
        Self {
            evaluated: expressions.collect(),
            variables: programs,
            variable_errors,
        }
    }

    /// Return the messages of the expressions that do not compile.
    pub fn errors(&self) -> Vec<Option<String>> {
        let errors = self.evaluated.iter();
        errors
            .map(|(_, _, of)| of.as_ref().err().cloned())
            .collect()
    }

    /// Return the messages of the variables that do not compile.
    pub fn variable_errors(&self) -> &[Option<String>] {
        &self.variable_errors
    }

    /// Evaluate all expressions in at most `budget` steps. `authorize` answers the questions to the authorizer.
    pub fn evaluate(
        &self,
        inputs: Inputs<'_>,
        budget: u64,
        authorize: Option<&dyn Fn(&Question) -> Decision>,
    ) -> Evaluated {
        let run = Run::new(self, inputs, authorize);
        let mut left = budget;
        let mut outcomes = Vec::with_capacity(self.evaluated.len());
        for (text, returns, program) in &self.evaluated {
            let program = match program {
                Ok(program) => program,
                Err(why) => {
                    outcomes.push(Err(format!("compilation error: {why}")));
                    continue;
                }
            };
            let (result, rest) = program.run(&run, left);
            left = rest.checked_sub(run.spent.take())?;
            if left == 0 && matches!(result, Err(EvalError::TooCostly)) {
                return None;
            }
            let described = |why| format!("expression '{text}' resulted in error: {why}");
            outcomes.push(match result {
                Ok(value) => returned(&value, *returns),
                Err(error) => Err(described(error)),
            });
        }
        Some((outcomes, left))
    }
}

fn declare(names: &mut Names, fields: &BTreeMap<String, Type>) {
    let of = Type::Object(Arc::new(ObjectType {
        fields: fields.clone(),
    }));
    names.types.insert(VARIABLES.to_owned(), of);
}

/// Return the type of a variable with that type: only those of JSON and of times are known to other expressions.
fn plain(of: &Type) -> Type {
    match of {
        Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => of.clone(),
        Type::List(item) => Type::list(plain(item)),
        Type::Map(key, value) => Type::map(plain(key), plain(value)),
        _ => Type::Dyn,
    }
}

fn returned(value: &Value, returns: Returns) -> Outcome {
    match (returns, value) {
        (Returns::Object, _) => json::check_names(value, "Object")?,
        (Returns::Patches, Value::List(patches)) => {
            for patch in &patches.items {
                if let Value::Message(patch) = patch
                    && let Some(value @ Value::Message(part)) = patch.fields.get("value")
                {
                    json::check_names(value, &part.name)?;
                }
            }
        }
        _ => {}
    }
    json::of(value)
}

/// The scope of one evaluation.
struct Run<'a> {
    of: &'a Expressions,
    values: HashMap<&'static str, Value>,
    /// The variables evaluated so far.
    known: RefCell<HashMap<String, Result<Value, EvalError>>>,
    /// The steps that variables took.
    spent: Cell<u64>,
    /// The nesting of the variables that are being evaluated, which bounds the stack.
    depth: Cell<usize>,
    authorize: Option<&'a dyn Fn(&Question) -> Decision>,
}

impl<'a> Run<'a> {
    fn new(
        of: &'a Expressions,
        inputs: Inputs<'_>,
        authorize: Option<&'a dyn Fn(&Question) -> Decision>,
    ) -> Self {
        let shaped = |shape: &Option<Arc<Shape>>, json| {
            shape
                .as_ref()
                .map_or(Value::Null, |shape| shape.value(json))
        };
        let mut values = HashMap::from([
            ("object", schema::any(inputs.object)),
            ("oldObject", schema::any(inputs.old)),
            ("params", schema::any(inputs.params)),
            ("request", shaped(&REQUEST_SHAPE, inputs.request)),
            (
                "namespaceObject",
                shaped(&NAMESPACE_SHAPE, inputs.namespace),
            ),
        ]);
        if authorize.is_some() {
            let own = own_resource(inputs.request);
            let check = Check::Authorizer(Question::default(), Arc::new(own));
            values.insert("authorizer", authz::value(check));
        }
        Self {
            of,
            values,
            known: RefCell::default(),
            spent: Cell::new(0),
            depth: Cell::new(0),
            authorize,
        }
    }
}

/// Return the question about the resource of a request.
fn own_resource(request: &Json) -> Question {
    let text = |of: Option<&Json>, name: &str| {
        of.and_then(|of| of.get(name)?.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let resource = request.get("requestResource");
    Question {
        group: text(resource, "group"),
        resource: text(resource, "resource"),
        subresource: text(Some(request), "requestSubResource"),
        namespace: text(Some(request), "namespace"),
        name: text(Some(request), "name"),
        ..Question::default()
    }
}

impl Scope for Run<'_> {
    fn value(&self, name: &str) -> Option<Value> {
        self.values.get(name).cloned()
    }

    fn variable(&self, name: &str) -> Result<Option<Value>, EvalError> {
        if let Some(known) = self.known.borrow().get(name) {
            return known.clone().map(Some);
        }
        let value = match self.of.variables.get(name) {
            None => return Ok(None),
            Some(Err(why)) => Err(EvalError::because(format!(
                "composited variable {name:?} fails to compile: {why}"
            ))),
            Some(Ok(program)) => {
                let outer = self.depth.get();
                if outer + program.depth() > MAX_DEPTH {
                    let why = format!("composited variable {name:?} nests too deep");
                    return Err(EvalError::because(why));
                }
                self.depth.set(outer + program.depth());
                let (result, left) = program.run(self, u64::MAX);
                self.depth.set(outer);
                self.spent
                    .set(self.spent.get().saturating_add(u64::MAX - left));
                result.map_err(|why| {
                    EvalError::because(format!(
                        "composited variable {name:?} fails to evaluate: {why}"
                    ))
                })
            }
        };
        self.known
            .borrow_mut()
            .insert(name.to_owned(), value.clone());
        value.map(Some)
    }

    fn authorize(&self, question: &Question) -> Option<Decision> {
        self.authorize.map(|ask| ask(question))
    }
}
