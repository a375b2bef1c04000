//! From a schema to the tree of its rules, and the problems of these rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::rule::{Program, REASONS, Rule, field_path};
use crate::schema::{self, Shape, flag, list_keys, properties, string};
use crate::types::Type;

/// The maximum size, in bytes, of all rules of a schema.
const MAX_SIZE: usize = 64 << 20;
/// The size counted for a rule that does not compile, since it took as long as a large one.
const REFUSED_SIZE: usize = 1 << 20;
/// The number of levels of a schema that are compiled.
const MAX_DEPTH: usize = 100;

const INVALID: &str = "FieldValueInvalid";

/// A problem of a rule of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field below the schema; it begins with a dot unless it is empty.
    pub field: String,
    /// The reason of the cause.
    pub reason: &'static str,
    /// The value to show, as JSON; empty for none.
    pub value: String,
    /// The message.
    pub message: String,
    /// A field of the schema with which the message ends.
    pub within: Option<String>,
}

/// The rules of a schema node and below.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) shape: Option<Arc<Shape>>,
    /// The type as JSON, for errors of evaluations.
    pub(crate) kind: String,
    pub(crate) rules: Vec<Rule>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Option<Box<Node>>,
    pub(crate) items: Option<Box<Node>>,
    /// The keys of a list of type map.
    pub(crate) keys: Option<Vec<String>>,
}

pub(crate) struct Compiler {
    problems: Vec<Problem>,
    size: usize,
}

/// A place in a schema.
#[derive(Clone)]
struct Place<'a> {
    field: String,
    root: bool,
    depth: usize,
    /// The nearest part above whose elements cannot be matched with their former values.
    uncorrelatable: Option<&'a str>,
}

impl Compiler {
    /// Compile all rules; None if there are none.
    pub(crate) fn compile(schema: &Json, root: bool) -> (Option<Node>, Vec<Problem>) {
        let mut compiler = Self {
            problems: Vec::new(),
            size: 0,
        };
        let place = Place {
            field: String::new(),
            root,
            depth: 0,
            uncorrelatable: None,
        };
        let node = compiler.node(schema, &place);
        (node, compiler.problems)
    }

    fn node(&mut self, schema: &Json, place: &Place<'_>) -> Option<Node> {
        if place.depth > MAX_DEPTH {
            return None;
        }
        let mut node = Node::default();
        let below = |field: &str, root: bool, uncorrelatable| Place {
            field: format!("{}.{field}", place.field),
            root,
            depth: place.depth + 1,
            uncorrelatable,
        };
        let embedded = |schema: &Json| flag(schema, "x-kubernetes-embedded-resource");
        for (name, property) in properties(schema) {
            let place = below(
                &format!("properties[{name}]"),
                embedded(property),
                place.uncorrelatable,
            );
            if let Some(child) = self.node(property, &place) {
                node.properties.insert(name.clone(), child);
            }
        }
        if let Some(rest) = schema::below(schema, "additionalProperties") {
            let place = below("additionalProperties", embedded(rest), place.uncorrelatable);
            node.additional = self.node(rest, &place).map(Box::new);
        }
        if let Some(items) = schema::below(schema, "items") {
            let correlatable = string(schema, "x-kubernetes-list-type") == "map";
            node.keys = correlatable.then(|| list_keys(schema));
            let uncorrelatable = place
                .uncorrelatable
                .or((!correlatable).then_some(place.field.as_str()));
            let place = below("items", embedded(items), uncorrelatable);
            node.items = self.node(items, &place).map(Box::new);
        }
        if schema.get("x-kubernetes-validations").is_some() {
            node.shape = Shape::of(schema, place.root);
            node.rules = self.rules(schema, node.shape.as_ref(), place);
        }
        node.kind = shown_type(schema);
        let empty = node.rules.is_empty() && node.properties.is_empty();
        (!empty || node.items.is_some() || node.additional.is_some()).then_some(node)
    }

    fn rules(&mut self, schema: &Json, shape: Option<&Arc<Shape>>, place: &Place<'_>) -> Vec<Rule> {
        let mut rules = Vec::new();
        let before = self.problems.len();
        for (index, json) in array(schema, "x-kubernetes-validations").enumerate() {
            let field = format!("{}.x-kubernetes-validations[{index}]", place.field);
            self.form(schema, json, &field);
        }
        if self.problems.len() > before {
            return rules;
        }
        for (index, json) in array(schema, "x-kubernetes-validations").enumerate() {
            let field = format!("{}.x-kubernetes-validations[{index}]", place.field);
            let Some(shape) = shape else {
                let message = "failed to retrieve type information for x-kubernetes-validations";
                self.problem(field, "InternalError", String::new(), message);
                break;
            };
            if self.size > MAX_SIZE {
                let message = "the schema's rules are too large together";
                self.problem(field, "FieldValueForbidden", String::new(), message);
                break;
            }
            rules.extend(self.rule(schema, json, shape, &field, place));
        }
        rules
    }

    fn rule(
        &mut self,
        schema: &Json,
        json: &Json,
        shape: &Shape,
        field: &str,
        place: &Place<'_>,
    ) -> Option<Rule> {
        let text = |name| string(json, name);
        let old = match json.get("optionalOldSelf").and_then(Json::as_bool) {
            Some(true) => Type::optional(shape.of.clone()),
            _ => shape.of.clone(),
        };
        let program = Program::compile(text("rule"), &shape.of, &old, &Type::Bool);
        self.size += program.as_ref().map_or(REFUSED_SIZE, Program::size);
        let program = match program {
            Ok(program) => program,
            Err(message) => {
                self.problem(format!("{field}.rule"), INVALID, shown_rule(json), &message);
                return None;
            }
        };
        let mut message_program = None;
        if !text("messageExpression").is_empty() {
            let compiled =
                Program::compile(text("messageExpression"), &shape.of, &old, &Type::String);
            self.size += compiled.as_ref().map_or(REFUSED_SIZE, Program::size);
            match compiled {
                Ok(compiled) => message_program = Some(compiled),
                Err(message) => {
                    let message = match message.strip_prefix("compilation failed") {
                        Some(rest) => format!("messageExpression compilation failed{rest}"),
                        None => message,
                    };
                    let field = format!("{field}.messageExpression");
                    self.problem(field, INVALID, shown_rule(json), &message);
                }
            }
        }
        if program.uses_old_self() {
            if let Some(within) = place.uncorrelatable {
                let value = Json::from(text("rule")).to_string();
                let message =
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within ";
                self.problem(format!("{field}.rule"), INVALID, value, message);
                if let Some(problem) = self.problems.last_mut() {
                    problem.within = Some(within.to_owned());
                }
            }
        } else if let Some(optional) = json
            .get("optionalOldSelf")
            .filter(|optional| !optional.is_null())
        {
            let message = "may not be set if oldSelf is not used in rule";
            let field = format!("{field}.optionalOldSelf");
            self.problem(field, INVALID, optional.to_string(), message);
        }
        let below = field_path(schema, text("fieldPath")).unwrap_or_default();
        Some(Rule::new(json, program, message_program, below))
    }

    /// Check the parts of a rule that are not expressions.
    fn form(&mut self, schema: &Json, json: &Json, field: &str) {
        let raw = |name: &str| string(json, name);
        let (rule, message) = (raw("rule").trim(), raw("message").trim());
        let broken = |text: &str| text.contains(['\n', '\r']);
        let mut problem = |name: &str, reason: &'static str, why: &str| {
            let value = match reason {
                "FieldValueRequired" => String::new(),
                _ => Json::from(raw(name)).to_string(),
            };
            self.problem(format!("{field}.{name}"), reason, value, why);
        };
        let (invalid, required) = (INVALID, "FieldValueRequired");
        let (empty, line_breaks) = (
            "must be non-empty if specified",
            "must not contain line breaks",
        );
        if rule.is_empty() {
            problem("rule", required, "rule is not specified");
        } else if !raw("message").is_empty() && message.is_empty() {
            problem("message", invalid, empty);
        } else if broken(message) {
            problem("message", invalid, line_breaks);
        } else if broken(rule) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            problem("message", required, why);
        }
        if !raw("messageExpression").is_empty() && raw("messageExpression").trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            problem("messageExpression", required, why);
        }
        if let Some(reason) = json.get("reason").and_then(Json::as_str)
            && !REASONS.contains(&reason)
        {
            let supported = REASONS.map(|reason| format!("\"{reason}\"")).join(", ");
            let why = format!("supported values: {supported}");
            problem("reason", "FieldValueNotSupported", &why);
        }
        let path = raw("fieldPath");
        if path.is_empty() {
            return;
        }
        if path.trim().is_empty() {
            problem("fieldPath", invalid, empty);
        }
        if path.contains('\n') {
            problem("fieldPath", invalid, line_breaks);
        }
        if field_path(schema, path).is_none() {
            problem("fieldPath", invalid, "must be a valid path");
        }
    }

    fn problem(&mut self, field: String, reason: &'static str, value: String, message: &str) {
        self.problems.push(Problem {
            field,
            reason,
            value,
            message: message.to_owned(),
            within: None,
        });
    }
}

fn array<'a>(schema: &'a Json, name: &str) -> impl Iterator<Item = &'a Json> {
    schema
        .get(name)
        .and_then(Json::as_array)
        .into_iter()
        .flatten()
}

/// Return a rule as messages show it: all its parts, in the order and with the escapes of the real server.
fn shown_rule(json: &Json) -> String {
    let text = |name: &str| Json::from(string(json, name)).to_string();
    let text_of = |name: &str| {
        json.get(name)
            .map_or_else(|| "null".to_owned(), Json::to_string)
    };
    let rule = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        text_of("reason"),
        text("fieldPath"),
        text_of("optionalOldSelf")
    );
    rule.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

fn shown_type(schema: &Json) -> String {
    format!("\"{}\"", string(schema, "type"))
}
