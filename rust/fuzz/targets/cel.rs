//! A rule of a schema and an object: neither causes a panic or takes long.
#![no_main]

use kube_cel::Validator;
use libfuzzer_sys::fuzz_target;

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "i": {"type": "integer"}, "n": {"type": "number"}, "s": {"type": "string"}, "b": {"type": "boolean"},
    "l": {"type": "array", "items": {"type": "string"}}, "d": {"type": "string", "format": "duration"},
    "t": {"type": "string", "format": "date-time"}, "y": {"type": "string", "format": "byte"},
    "x": {"x-kubernetes-int-or-string": true}, "m": {"type": "object", "additionalProperties": {"type": "integer"}}}}"#;
const OBJECT: &str = r#"{"i":-7,"n":1.5e300,"s":"ünïcode","b":true,"l":["a","","-1"],"d":"1h","t":"2024-02-29T23:59:59Z","y":"AAE=","x":"50%","m":{"k":9223372036854775807}}"#;

fuzz_target!(|input: &str| {
    let (rule, text) = input.split_once('\0').unwrap_or((input, "abc"));
    let Ok(mut schema) = serde_json::from_str::<serde_json::Value>(SCHEMA) else {
        return;
    };
    schema["x-kubernetes-validations"] = serde_json::json!([
        {"rule": rule, "messageExpression": rule, "fieldPath": text},
        {"rule": format!("[{rule}].size() == 1"), "message": "m"},
    ]);
    let Ok(mut object) = serde_json::from_str::<serde_json::Value>(OBJECT) else {
        return;
    };
    let before = object.clone();
    object["s"] = text.into();
    object["d"] = text.into();
    object["t"] = text.into();
    // Each text alone, so that one that does not compile does not hide the other.
    for index in [0, 1] {
        let mut one = schema.clone();
        one["x-kubernetes-validations"] = serde_json::json!([schema["x-kubernetes-validations"][index]]);
        let validator = Validator::new(&one, false);
        let _ = validator.validate(&object, Some(&before));
        let _ = validator.validate(&before, None);
    }
});
