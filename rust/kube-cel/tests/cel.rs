//! Validation rules: their results, and the bounds of their cost.

use kube_cel::Validator;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

fn schema(rule: &str) -> Json {
    json!({
        "type": "object",
        "properties": {
            "i": {"type": "integer"},
            "s": {"type": "string"},
            "l": {"type": "array", "items": {"type": "string"}},
            "o": {"type": "object", "properties": {"i": {"type": "integer"}}},
        },
        "x-kubernetes-validations": [{"rule": rule}],
    })
}

fn compiled(rule: &str) -> Validator {
    let validator = Validator::new(&schema(rule), false);
    assert_eq!(validator.problems(), [], "{rule}");
    validator
}

/// Return the messages for an object; empty if the rule holds.
fn said(rule: &str, object: &Json) -> String {
    let problems = compiled(rule).validate(object, None);
    problems
        .into_iter()
        .map(|problems| problems.message)
        .collect()
}

fn holds(rule: &str) {
    assert_eq!(said(rule, &json!({"i": 1, "s": "x"})), "", "{rule}");
}

#[test]
fn operators_have_the_right_precedence() {
    for rule in [
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 - 4 - 2 == 1 && -2 * -3 == 6 && 7 / 2 * 2 == 6",
        "true || false && false",
        "1 < 2 ? 3 < 4 : false",
        "false ? false : true ? true : false",
        "!false && !!true && --1 == 1 && -9223372036854775808 < 0",
        "1 in [1] && !(2 in [1]) && 'a' in {'a': 1}",
        "0x10 == 16 && 0x10u == 16u && 1e3 == 1000.0 && .5 == 0.5",
        "'a' + \"b\" == r'ab' && b'\\x41' == bytes('A') && '\\101' == 'A' // a remark",
        "{'a': 1, ?'b': optional.none()} == {'a': 1} && [1, ?optional.of(2)] == [1, 2]",
        "dyn(1) == dyn(1.0) && dyn(1) != dyn('1') && [1] == [1] && type(1) != type(1u)",
        "self.?s.orValue('') == 'x' && !self.?o.i.hasValue() && self.?o.optMap(o, o.i).orValue(3) == 3",
    ] {
        holds(rule);
    }
}

#[test]
fn an_operand_that_decides_makes_up_for_one_that_fails() {
    for rule in [
        "1 / 0 == 1 || true",
        "!(1 / 0 == 1 && false)",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 2].all(x, 1 / x == 1)",
    ] {
        holds(rule);
    }
    assert!(
        said("1 / 0 == 1 || false", &json!({})).starts_with("division by zero evaluating rule")
    );
    assert!(said("[0].exists(x, 1 / x == 1)", &json!({})).starts_with("division by zero"));
}

#[test]
fn times_and_durations_follow_the_calendar() {
    for rule in [
        "timestamp('2024-02-29T23:59:59.5Z') + duration('1s') == timestamp('2024-03-01T00:00:00.5Z')",
        "timestamp('1969-12-31T23:59:59Z').getDayOfWeek() == 3 && int(timestamp('1969-12-31T23:59:59Z')) == -1",
        "timestamp('2024-12-31T00:00:00Z').getDayOfYear() == 365 && timestamp(0).getFullYear() == 1970",
        "timestamp('2024-01-01T00:30:00Z').getHours('-01:00') == 23",
        "duration('-1.5h').getMinutes() == -90 && string(duration('1500ms')) == '1.5s'",
        "timestamp('2024-01-01T00:00:00+01:00') < timestamp('2024-01-01T00:00:00Z')",
    ] {
        holds(rule);
    }
    assert!(
        said(
            "timestamp(self.s) == timestamp(0)",
            &json!({"s": "2023-02-29T00:00:00Z"})
        )
        .contains("conversion")
    );
    assert!(
        said(
            "timestamp(253402300799) + duration('1s') == timestamp(0)",
            &json!({})
        )
        .contains("overflow")
    );
}

/// Each form, nested as deep as the parser allows, stays within the smallest stack.
#[test]
fn the_deepest_rules_run_on_a_small_stack() {
    let run = || {
        let nest = |open: &str, inner: &str, close: &str, times: usize| {
            format!("{}{inner}{}", open.repeat(times), close.repeat(times))
        };
        for rule in [
            nest("(", "true", ")", 150),
            nest("!(", "true", ")", 150),
            nest("[", "1", "]", 150) + ".size() == 1",
            nest("{1: ", "1", "}", 150) + ".size() == 1",
            nest("[1].all(x, ", "true", ")", 140),
            nest("[1].map(x, ", "1", ")", 140) + " != []",
            nest("true ? (", "true", ") : false", 70),
            nest("dyn(", "1", ")", 150) + " == 1",
            format!("1{} > 1", " + 1".repeat(150)),
            format!("true{}", " && true".repeat(5000)),
        ] {
            compiled(&rule).validate(&json!({"s": "x"}), None);
        }
    };
    let small = std::thread::Builder::new().stack_size(2 << 20);
    small.spawn(run).expect("a thread").join().expect("it ends");
}

#[test]
fn problems_name_the_field_and_show_the_place() {
    let validator = Validator::new(&schema("self.i\n  > self.q"), false);
    assert_eq!(
        validator.problems()[0].field,
        ".x-kubernetes-validations[0].message"
    );
    let validator = Validator::new(&schema("'ü' == self.q"), false);
    let problem = &validator.problems()[0];
    assert_eq!(problem.field, ".x-kubernetes-validations[0].rule");
    let text = "compilation failed: ERROR: <input>:1:12: undefined field 'q'\n | 'ü' == self.q\n | ...........^";
    assert_eq!(problem.message, text);
}

proptest! {
    #[test]
    fn no_text_panics(rule in r#"[-a-z0-9'"\[\](){}.,:?!&|=<>+*/% \\]{0,60}"#, text in ".{0,20}") {
        let validator = Validator::new(&schema(&rule), false);
        let _ = validator.validate(&json!({"i": 1, "s": text}), None);
    }

    #[test]
    fn integers_are_computed_as_in_rust(a: i64, b: i64) {
        let object = json!({"i": a, "o": {"i": b}});
        for (sign, wanted) in [
            ("+", a.checked_add(b)), ("-", a.checked_sub(b)), ("*", a.checked_mul(b)), ("/", a.checked_div(b)),
            ("%", a.checked_rem(b)),
        ] {
            let rule = format!("self.i {sign} self.o.i == {}", wanted.unwrap_or(0));
            prop_assert_eq!(said(&rule, &object).is_empty(), wanted.is_some(), "{} of {} and {}", rule, a, b);
        }
        prop_assert_eq!(said("self.i < self.o.i", &object).is_empty(), a < b);
    }
}
