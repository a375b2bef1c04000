//! Patterns have the same meaning as in Go, and none takes long.

use kube_cel::pattern::Pattern;

fn matches(pattern: &str, text: &str) -> bool {
    Pattern::new(pattern)
        .unwrap_or_else(|bad| panic!("{pattern}: {bad}"))
        .is_match(text.as_bytes())
        .unwrap_or_else(|long| panic!("{pattern}: {long}"))
}

#[test]
fn patterns_of_kubernetes_match_as_expected() {
    let name = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    let cases = [
        (name, "a.b-c", true),
        (name, "a..b", false),
        (name, "a\n", false),
        (r"^(\*\.)?[a-z]+$", "*.x", true),
        (r"^([0-9]{1,5}(h|m|s|ms)){1,4}$", "1h30m", true),
        (r"^([0-9]{1,5}(h|m|s|ms)){1,4}$", "1h30", false),
        (r"^(?:[-A-Za-z0-9/]+|\x{2603})$", "\u{2603}", true),
        (r"b", "abc", true),
        (r"", "", true),
        (r"(?i)^straße$", "STRAßE", true),
    ];
    for (pattern, text, expected) in cases {
        assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}");
    }
}

#[test]
fn classes_and_boundaries_are_those_of_ascii() {
    for (pattern, text, expected) in [
        (r"^\d$", "\u{0661}", false),
        (r"^\w$", "é", false),
        (r"^\W$", "é", true),
        (r"^\s$", "\u{00a0}", false),
        (r"^\s$", "\u{000b}", false),
        (r"^[\w-]+$", "a-b", true),
        (r"^[^\s,]+$", "a b", false),
        (r"é\bx", "éx", true),
        (r"^.$", "é", true),
        (r"^.$", "\n", false),
        (r"^\pL$", "é", true),
        (r"^\p{Greek}$", "λ", true),
        (r"^\p{^Greek}$", "λ", false),
        (r"^[[:alpha:]]$", "é", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}");
    }
}

#[test]
fn characters_literal_in_go_are_literal() {
    for (pattern, text, expected) in [
        (r"^a{,2}$", "a{,2}", true),
        (r"^x{$", "x{", true),
        (r"^\<a\>$", "<a>", true),
        (r"^[a&&b]$", "&", true),
        (r"^[[a]$", "[", true),
        (r"^[]a]$", "]", true),
        (r"^[^]a]$", "]", false),
        (r"^[+--]$", ",", true),
        (r"^[--a]$", "A", true),
        (r"^[a-]$", "-", true),
        (r"^[a~~b]$", "~", true),
        (r"^[ #]$", "#", true),
        (r"^\Qa.b*\E+$", "a.b**", true),
        (r"^\Qa.b*\E+$", "axb", false),
        (r"^\101\x41\012$", "AA\n", true),
        (r"\z", "", true),
        (r"a||b", "", true),
        (r"^(?P<n>a)(?<m>b)$", "ab", true),
        (r"^(?s:.)(?m:^)$", "\n", true),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} on {text:?}");
    }
}

#[test]
fn patterns_that_go_rejects_are_rejected() {
    for pattern in [
        r"a**",
        r"a{2}{3}",
        r"*a",
        r"a|*",
        r"(",
        r")",
        r"[a",
        r"a\",
        r"\1",
        r"\8",
        r"\u0041",
        r"\Z",
        r"(?=a)",
        r"(?!a)",
        r"(?<=a)",
        r"(?<!a)b",
        r"(?>a)",
        r"(?x)a",
        r"a{1001}",
        r"(a{100}){100}",
        r"((a{10}){10}){11}",
        r"[b-a]",
        r"[[:nope:]]",
        r"\p{Nope}",
        r"(?P<n>a)(?P<n>b)",
        r"a++",
        r"\k<n>",
        r"(?P=n)",
        r"[\b]",
        r"(?#c)",
        r"\C",
        r"\é",
    ] {
        assert!(Pattern::new(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn an_error_gives_the_reason_without_the_rewritten_pattern() {
    let why = Pattern::new(r"\d[b-a]")
        .expect_err("the range is empty")
        .to_string();
    assert!(!why.contains("0-9") && !why.contains('\n'), "{why}");
}

#[test]
fn patterns_that_explode_elsewhere_are_linear_here() {
    let text = "a".repeat(20_000) + "!";
    for pattern in [
        r"^(a+)+$",
        r"^(a|aa)+$",
        r"^(.*a){20}$",
        r"(a*)*b",
        r"^(a?){50}a{50}$",
    ] {
        assert!(!matches(pattern, &text), "{pattern}");
    }
}

#[test]
fn a_large_pattern_accepts_only_short_texts() {
    let alternatives: Vec<String> = (900..1000).map(|n| format!("a{{{n}}}b")).collect();
    let pattern = Pattern::new(&alternatives.join("|")).expect("Go takes it");
    let long = "a".repeat(1_500_000);
    let most = pattern
        .is_match(long.as_bytes())
        .expect_err("a search would take minutes")
        .most;
    assert_eq!(
        pattern.is_match(&long.as_bytes()[..most.min(2_000)]),
        Ok(false)
    );
    assert!(Pattern::new(r"^[\pL\pN]{1,63}$").is_ok());
    assert!(Pattern::new(r"\pL{1000}").is_err());
    assert!(Pattern::new(&"a".repeat(100_000)).is_err());
}
