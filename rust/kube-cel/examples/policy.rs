//! The expressions of an admission policy: variables, the authorizer, and a budget of steps.

use kube_cel::{Decision, Expressions, Inputs, Question, Returns};
use serde_json::{Value, json};

fn main() {
    let expressions = vec![
        ("variables.replicas <= 5".to_owned(), Returns::Bool),
        (
            "authorizer.group('apps').resource('deployments').check('delete').allowed()".to_owned(),
            Returns::Bool,
        ),
    ];
    let variables = vec![(
        "replicas".to_owned(),
        "has(object.spec.replicas) ? object.spec.replicas : 1".to_owned(),
    )];
    let policy = Expressions::new(expressions, variables, false, true, None);
    assert_eq!(policy.errors(), [None, None], "the expressions compile");

    let inputs = Inputs {
        object: &json!({"spec": {"replicas": 7}}),
        old: &Value::Null,
        request: &json!({"operation": "CREATE", "namespace": "shop"}),
        namespace: &Value::Null,
        params: &Value::Null,
    };
    let authorize = |question: &Question| Decision {
        allowed: question.verb == "delete",
        reason: String::new(),
    };
    let (outcomes, left) = policy
        .evaluate(inputs, 1_000_000, Some(&authorize))
        .expect("a million steps are enough");
    println!("{outcomes:?}, {left} steps left");
    assert_eq!(outcomes, [Ok(json!(false)), Ok(json!(true))]);

    // Too few steps: no result at all, and no wrong one.
    assert_eq!(policy.evaluate(inputs, 3, Some(&authorize)), None);
}

#[test]
fn runs() {
    main();
}
