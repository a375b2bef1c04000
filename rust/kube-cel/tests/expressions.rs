//! Expressions of admission policies: what they see, what they return, and the bounds of their cost.

use std::cell::RefCell;
use std::sync::LazyLock;

use kube_cel::{Decision, Expressions, Inputs, Question, Returns};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// The object, the object before, the request, the namespace and the parameters.
static JSON: LazyLock<[Json; 5]> = LazyLock::new(|| {
    [
        json!({
            "metadata": {"name": "n", "namespace": "ns"},
            "spec": {"n": 3, "f": 1.5, "l": ["a", "b"], "x": null},
        }),
        Json::Null,
        json!({
            "name": "n", "namespace": "ns", "operation": "CREATE", "dryRun": false, "options": {"a": 1},
            "requestResource": {"group": "apps", "version": "v1", "resource": "deployments"},
        }),
        json!({"metadata": {"name": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}),
        json!({"data": {"limit": "5"}}),
    ]
});

fn inputs() -> Inputs<'static> {
    let [object, old, request, namespace, params] = &*JSON;
    Inputs {
        object,
        old,
        request,
        namespace,
        params,
    }
}

const BUDGET: u64 = 10_000_000;

fn compiled(text: &str, returns: Returns, variables: &[(&str, &str)]) -> Expressions {
    let variables = variables
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    Expressions::new(
        vec![(text.to_owned(), returns)],
        variables,
        true,
        true,
        None,
    )
}

/// Return the result of an expression as JSON, or the message of its error.
fn result(text: &str, returns: Returns, variables: &[(&str, &str)]) -> Result<String, String> {
    let expressions = compiled(text, returns, variables);
    let (mut found, _) = expressions
        .evaluate(inputs(), BUDGET, None)
        .expect("there are enough steps");
    found.remove(0).map(|value| value.to_string())
}

fn holds(text: &str) {
    assert_eq!(
        result(text, Returns::Bool, &[]),
        Ok("true".to_owned()),
        "{text}"
    );
}

fn problem(text: &str, returns: Returns) -> String {
    compiled(text, returns, &[]).errors().remove(0).expect(text)
}

#[test]
fn expressions_see_the_request() {
    for text in [
        "object.metadata.namespace == 'ns' && object.spec.n == 3 && object.spec.f == 1.5",
        "has(object.spec.l) && !has(object.spec.nothing) && object.spec.x == null",
        "object.spec.l.exists(x, x == 'b') && size(object.spec) == 4",
        "oldObject == null",
        "request.namespace == 'ns' && request.operation == 'CREATE' && !request.dryRun",
        "!has(request.userInfo) && request.options.a == 1",
        "namespaceObject.metadata.name == 'ns'",
        "namespaceObject.metadata.creationTimestamp == timestamp('2026-01-01T00:00:00Z')",
        "int(params.data.limit) == 5",
    ] {
        holds(text);
    }
}

#[test]
fn types_are_exact() {
    assert_eq!(
        problem("object.x", Returns::Bool),
        "must evaluate to bool but got dyn"
    );
    assert_eq!(
        problem("1", Returns::StringOrNull),
        "must evaluate to one of [string null_type] but got int"
    );
    assert_eq!(
        problem("[]", Returns::Patches),
        "must evaluate to list(JSONPatch) but got list(dyn)"
    );
    assert_eq!(
        problem("Object.spec{}", Returns::Object),
        "must evaluate to Object but got Object.spec"
    );
    for (text, part) in [
        ("request.nothing == 1", "undefined field 'nothing'"),
        ("Thing{} == 1", "undeclared reference to 'Thing'"),
        ("Object{} == Object{}", "undeclared reference to 'Object'"),
        (
            "jsonpatch.escapeKey('a') == ''",
            "undeclared reference to 'jsonpatch'",
        ),
        ("variables.a == 1", "undefined field 'a'"),
        (
            "authorizer.check('get').allowed()",
            "found no matching overload",
        ),
    ] {
        let why = problem(text, Returns::Bool);
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn messages_become_objects() {
    assert_eq!(
        result(
            "Object{metadata: Object.metadata{labels: {'a': 'b'}, ?x: optional.none()}, n: [1, 2]}",
            Returns::Object,
            &[]
        ),
        Ok(r#"{"metadata":{"labels":{"a":"b"}},"n":[1,2]}"#.to_owned())
    );
    assert_eq!(
        result(
            "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c~d'), value: Object.a{b: true}}]",
            Returns::Patches,
            &[]
        ),
        Ok(r#"[{"op":"add","path":"/a/b~1c~0d","value":{"b":true}}]"#.to_owned())
    );
    let wrong = result("Object{spec: Object.metadata{}}", Returns::Object, &[]);
    assert!(wrong.is_err_and(|why| why.contains(r#"unexpected type name "Object.metadata""#)));
}

#[test]
fn variables_are_evaluated_on_demand() {
    let variables = [
        ("a", "object.spec.n"),
        ("b", "variables.a + 1"),
        ("bad", "object.nothing"),
        ("broken", "1 +"),
    ];
    assert_eq!(
        result(
            "variables.b == 4 && has(variables.a)",
            Returns::Bool,
            &variables
        ),
        Ok("true".to_owned())
    );
    assert_eq!(
        result("variables.bad == 1", Returns::Bool, &variables),
        Err(
            "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: \
             no such key: nothing"
                .to_owned()
        )
    );
    let broken = result("variables.broken == 1", Returns::Bool, &variables);
    assert!(broken.is_err_and(|why| why.contains("fails to compile")));
    // A local variable hides the name.
    holds("[{'a': 5}].all(variables, variables.a == 5)");
}

#[test]
fn the_authorizer_is_asked_what_was_stated() {
    let questions = RefCell::new(Vec::new());
    let answer = |question: &Question| {
        questions.borrow_mut().push(question.clone());
        Decision {
            allowed: question.verb == "get",
            reason: "because".to_owned(),
        }
    };
    let texts = [
        "authorizer.serviceAccount('a', 'b').group('g').resource('r').subresource('s').namespace('ns').name('n').check('get').allowed()",
        "!authorizer.path('/healthz').check('put').allowed()",
        "authorizer.requestResource.check('get').reason() == 'because'",
    ];
    for text in texts {
        let result = compiled(text, Returns::Bool, &[]).evaluate(inputs(), BUDGET, Some(&answer));
        let (outcomes, _) = result.expect("there are enough steps");
        assert_eq!(outcomes, [Ok(Json::Bool(true))], "{text}");
    }
    let questions = questions.into_inner();
    let [first, second, third] = questions.as_slice() else {
        panic!("{questions:?}");
    };
    assert_eq!(first.account, Some(("a".to_owned(), "b".to_owned())));
    let values = [
        &first.group,
        &first.resource,
        &first.subresource,
        &first.namespace,
        &first.name,
    ];
    assert_eq!(values, ["g", "r", "s", "ns", "n"]);
    assert_eq!(
        (second.path.as_str(), second.resource.as_str()),
        ("/healthz", "")
    );
    assert_eq!(
        [&third.group, &third.resource, &third.namespace, &third.name],
        ["apps", "deployments", "ns", "n"]
    );
}

#[test]
fn bad_arguments_of_the_authorizer_are_errors() {
    for (text, part) in [
        (
            "authorizer.path(' ').check('get').allowed()",
            "path must not be empty",
        ),
        (
            "authorizer.group('').resource('').check('get').allowed()",
            "resource must not be empty",
        ),
        (
            "authorizer.serviceAccount('a', 'B').path('/').check('get').allowed()",
            "Invalid service account name",
        ),
        (
            "authorizer.serviceAccount('a.b', 'b').path('/').check('get').allowed()",
            "Invalid service account namespace",
        ),
    ] {
        let answer = |_: &Question| Decision::default();
        let result = compiled(text, Returns::Bool, &[]).evaluate(inputs(), BUDGET, Some(&answer));
        let (outcomes, _) = result.expect("there are enough steps");
        let why = outcomes.first().and_then(|outcome| outcome.as_ref().err());
        assert!(why.is_some_and(|why| why.contains(part)), "{text}: {why:?}");
    }
}

#[test]
fn each_evaluation_and_all_together_are_bounded() {
    let loops = |depth| {
        format!(
            "{}true{}",
            "lists.range(100).all(a, ".repeat(depth),
            ")".repeat(depth)
        )
    };
    let costly = result(&loops(4), Returns::Bool, &[]);
    assert!(costly.is_err_and(|why| why.ends_with("actual cost limit exceeded")));
    let many = vec![(loops(2), Returns::Bool); 100];
    let expressions = Expressions::new(many, Vec::new(), false, true, None);
    assert_eq!(expressions.evaluate(inputs(), 100_000, None), None);
    // What a variable costs counts once.
    let variables = vec![("v".to_owned(), loops(2))];
    let texts = vec![("variables.v".to_owned(), Returns::Bool); 3];
    let expressions = Expressions::new(texts, variables, false, true, None);
    let (outcomes, left) = expressions
        .evaluate(inputs(), BUDGET, None)
        .expect("enough steps");
    assert_eq!(outcomes, vec![Ok(Json::Bool(true)); 3]);
    assert!(BUDGET - left < 100_000, "{left}");
}

#[test]
fn variables_that_nest_deep_are_an_error() {
    let mut variables = vec![("v0".to_owned(), "1".to_owned())];
    for at in 1..5_000 {
        variables.push((format!("v{at}"), format!("variables.v{} + 1", at - 1)));
    }
    let texts = vec![("variables.v4999 == 5000".to_owned(), Returns::Bool)];
    let expressions = Expressions::new(texts, variables, false, true, None);
    let (outcomes, _) = expressions
        .evaluate(inputs(), BUDGET, None)
        .expect("enough steps");
    let why = outcomes
        .first()
        .and_then(|outcomes| outcomes.as_ref().err());
    assert!(
        why.is_some_and(|why| why.contains("nests too deep")),
        "{why:?}"
    );
}

#[test]
fn a_schema_gives_the_object_its_types() {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    });
    let check = |text: &str| {
        let texts = vec![(text.to_owned(), Returns::Any)];
        let expressions = Expressions::new(texts, Vec::new(), false, true, Some(&schema));
        expressions.errors().remove(0)
    };
    assert_eq!(check("object.spec.n > 1 || oldObject.spec.n > 1"), None);
    assert!(check("object.spec.m > 1").is_some_and(|why| why.contains("undefined field 'm'")));
    assert!(check("object.spec.n > 'a'").is_some_and(|why| why.contains("no matching overload")));
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "[a-zObjectJSONPatch{}.:,?()'\\[\\] 0-9]{0,60}", returns in 0..3_u8) {
        let returns = match returns {
            0 => Returns::Any,
            1 => Returns::Object,
            _ => Returns::Patches,
        };
        let _ = compiled(&text, returns, &[("v", &text)]).evaluate(inputs(), 10_000, None);
    }
}
