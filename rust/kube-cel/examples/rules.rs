//! The rules of a CRD: a transition rule, a message made by an expression, and an unchanged value that stays invalid.

use kube_cel::{Finding, Validator};
use serde_json::json;

fn main() {
    let schema = json!({
        "type": "object",
        "properties": {
            "storage": {"type": "string"},
            "name": {"type": "string"},
        },
        "x-kubernetes-validations": [
            {
                "rule": "quantity(self.storage).compareTo(quantity(oldSelf.storage)) >= 0",
                "messageExpression": "'storage cannot shrink from ' + oldSelf.storage",
                "fieldPath": ".storage",
            },
            {"rule": "self.name.matches('^[a-z]+$')"},
        ],
    });
    let validator = Validator::new(&schema, false);
    assert_eq!(validator.problems(), [], "the rules compile");

    let old = json!({"storage": "2Gi", "name": "db"});
    let shrunk = json!({"storage": "512Mi", "name": "db"});
    for Finding { field, message, .. } in validator.validate(&shrunk, Some(&old)) {
        println!("{field}: {message}");
        assert_eq!(message, "storage cannot shrink from 2Gi");
    }
    // Without an object before, the transition rule does not apply.
    assert!(validator.validate(&shrunk, None).is_empty());

    // What was invalid before and did not change is only a warning.
    let legacy = json!({"storage": "2Gi", "name": "DB"});
    let findings = validator.validate(&legacy, Some(&legacy));
    assert!(findings.iter().all(|finding| finding.warning));
}

#[test]
fn runs() {
    main();
}
