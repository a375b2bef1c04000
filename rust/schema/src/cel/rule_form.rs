//! The parts of a rule that are no expressions.

use serde_json::Value as Json;

use super::compile::Compiler;
use super::field_path::field_path;

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

impl Compiler {
    /// Check what a rule says beside its expressions.
    pub(super) fn form(&mut self, schema: &Json, json: &Json, field: &str) {
        let raw = |name: &str| json.get(name).and_then(Json::as_str).unwrap_or_default();
        let shown = |name: &str| Json::from(raw(name)).to_string();
        let (rule, message) = (raw("rule").trim(), raw("message").trim());
        let broken = |text: &str| text.contains(['\n', '\r']);
        let (invalid, required) = ("FieldValueInvalid", "FieldValueRequired");
        let none = String::new;
        if rule.is_empty() {
            self.problem(
                &format!("{field}.rule"),
                required,
                none(),
                "rule is not specified",
            );
        } else if !raw("message").is_empty() && message.is_empty() {
            self.problem(
                &format!("{field}.message"),
                invalid,
                shown("message"),
                "must be non-empty if specified",
            );
        } else if broken(message) {
            self.problem(
                &format!("{field}.message"),
                invalid,
                shown("message"),
                "must not contain line breaks",
            );
        } else if broken(rule) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            self.problem(&format!("{field}.message"), required, none(), why);
        }
        if !raw("messageExpression").is_empty() && raw("messageExpression").trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            self.problem(&format!("{field}.messageExpression"), required, none(), why);
        }
        if let Some(reason) = json.get("reason").and_then(Json::as_str)
            && !REASONS.contains(&reason)
        {
            let supported = REASONS.map(|reason| format!("\"{reason}\"")).join(", ");
            let why = format!("supported values: {supported}");
            self.problem(
                &format!("{field}.reason"),
                "FieldValueNotSupported",
                shown("reason"),
                &why,
            );
        }
        let path = raw("fieldPath");
        if path.is_empty() {
            return;
        }
        let at = format!("{field}.fieldPath");
        if path.trim().is_empty() {
            self.problem(
                &at,
                invalid,
                shown("fieldPath"),
                "must be non-empty if specified",
            );
        }
        if path.contains('\n') {
            self.problem(
                &at,
                invalid,
                shown("fieldPath"),
                "must not contain line breaks",
            );
        }
        if field_path(schema, path).is_none() {
            self.problem(&at, invalid, shown("fieldPath"), "must be a valid path");
        }
    }
}
