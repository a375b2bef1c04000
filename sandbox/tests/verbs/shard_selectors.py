"""Shard selectors as people write them, and what kube-apiserver 1.36.3 makes of them."""

from __future__ import annotations

UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"
A, B = ("0x0000000000000000", "0x7fffffffffffffff"), ("0x8000000000000000", "0x10000000000000000")
CANONICAL = " || ".join(f"shardRange({UID}, '{start}', '{end}')" for start, end in (A, B))
#: Other ways to write CANONICAL.
SPELLINGS = [
    f"  shardRange( {UID} ,\t'{A[0]}','{A[1]}' )\n||\nshardRange({UID},'{B[0]}','{B[1]}')  ",
    f'shardRange({UID}, "{A[0]}", "{A[1]}") || shardRange({UID}, "{B[0]}", "{B[1]}")',
    f"(shardRange({UID}, '{A[0]}', '{A[1]}')) || ((shardRange(((object).metadata).uid, ('{B[0]}'), '{B[1]}')))",
    f"shardRange(object . metadata.uid, '''{A[0]}''', r\"{A[1]}\")//\n||shardRange({UID}, '\\x30{B[0][1:]}', '{B[1]}')",
    # The server does not look at the receiver of the call.
    f"a.shardRange({UID}, '{A[0]}', '{A[1]}') || [1].shardRange({UID}, '{B[0]}', '{B[1]}')",
]

BEGINS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
BEGINS_OR_CLOSES = BEGINS.replace("'(', ", "'(', ')', ")
KIND = "unexpected expression kind {}; expected shardRange() call or || operator"
FUNCTION = 'unsupported function "{}"; only shardRange() and || are allowed'
FIELD = 'unsupported field path "{}"; supported: object.metadata.uid, object.metadata.namespace'
PATH = "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {}"
LITERAL = "hexStart must be a string literal, got {}"
NO_LITERAL = "hexStart must be a string literal (e.g. '0xff'), got expression kind {}"
DIGITS = '{} must be a 0x-prefixed 16-digit hex value, got "{}" (did you mean "{}"?)'
PREFIX = "hexStart must have '0x' prefix, got "
ORDER = "shard range start {} must be less than end {}"
COUNT = "shardRange() requires exactly 3 arguments, got {}"
SYNTAX = "CEL parse error: Syntax error: "
EMPTY = "empty shard selector is not allowed; omit the parameter for unfiltered lists"
ZERO, HALFWAY, END = f"'{A[0]}'", f"'{B[0]}'", f"'{B[1]}'"
WHOLE_LINE = f"shardRange({UID}, {ZERO}, {END})"


def bounds(start: str, end: str = HALFWAY, field: str = UID) -> str:
    """Return a range with bounds as they are written."""
    return f"shardRange({field}, {start}, {end})"


#: What kube-apiserver answers, behind `invalid shard selector: `.
INVALID = {
    "x": KIND.format(3),
    " ": EMPTY,
    "\t\n\u00a0": EMPTY,
    bounds(ZERO, field="object.metadata.name"): FIELD.format("object.metadata.name"),
    bounds(ZERO, field="metadata.uid"): FIELD.format("metadata.uid"),
    bounds(ZERO, field=f".{UID}"): FIELD.format(f".{UID}"),
    bounds(ZERO, field=f"'{UID}'"): PATH.format(5),
    bounds(ZERO, field="object['metadata'].uid"): PATH.format(1),
    "&&": f"{SYNTAX}mismatched input '&&' expecting {BEGINS}",
    f"{WHOLE_LINE} && {WHOLE_LINE}": FUNCTION.format("_&&_"),
    f"{WHOLE_LINE} || {bounds(ZERO, field=NAMESPACE)}": (
        f'all shard ranges must use the same field, got "{UID}" and "{NAMESPACE}"'
    ),
    bounds("'0x000000000000000'"): DIGITS.format("hexStart", "0x000000000000000", A[0]),
    bounds(ZERO, "'0xf'"): DIGITS.format("hexEnd", "0xf", "0x000000000000000f"),
    bounds("'0xABCDEF0000000000'"): 'hexStart: invalid hex character "A" in "0xABCDEF0000000000"',
    bounds("'0X0000000000000000'"): f'{PREFIX}"0X0000000000000000"',
    bounds("'0x'"): "hexStart: hex value is required after '0x'",
    bounds(r"'0x\u200b\n'"): r'hexStart: invalid hex character "\u200b" in "0x\u200b\n"',
    bounds(r"'\u0001\x7f\"é\U000E0001'"): PREFIX + r'"\x01\x7f\"é\U000e0001"',
    bounds(HALFWAY): ORDER.format(B[0], B[0]),
    bounds(HALFWAY, ZERO): ORDER.format(B[0], A[0]),
    bounds(END, END): ORDER.format(B[1], B[1]),
    bounds(ZERO, "'0x100000000000000000'"): 'hexEnd: hex value too long (18 chars, max 17): "100000000000000000"',
    bounds(ZERO, "'0x10000000000000001'"): (
        f'hexEnd: 17-digit hex value must be {END} (2^64), got "0x10000000000000001"'
    ),
    f"shardRange({UID}, {ZERO})": COUNT.format(2),
    "shardRange()": COUNT.format(0),
    bounds("0"): LITERAL.format("int64"),
    bounds("1u"): LITERAL.format("uint64"),
    bounds("1.5"): LITERAL.format("float64"),
    bounds("true"): LITERAL.format("bool"),
    bounds("null"): LITERAL.format("structpb.NullValue"),
    bounds("b'0x'"): LITERAL.format("[]uint8"),
    bounds("x"): NO_LITERAL.format(3),
    bounds("{1: 2}"): NO_LITERAL.format(6),
    bounds(f"{ZERO} + {ZERO}"): NO_LITERAL.format(1),
    WHOLE_LINE.lower(): FUNCTION.format("shardrange"),
    f".{WHOLE_LINE}": FUNCTION.format(".shardRange"),
    "sets.contains([1], [1])": FUNCTION.format("contains"),
    "has(x.y)": FUNCTION.format("has"),
    "[1].all(x, true)": FUNCTION.format("all"),
    f"!{WHOLE_LINE}": FUNCTION.format("!_"),
    "a[0]": FUNCTION.format("_[_]"),
    "a ? b : c": FUNCTION.format("_?_:_"),
    "a in b": FUNCTION.format("@in"),
    "google.protobuf.Timestamp": KIND.format(7),
    "[1]": KIND.format(4),
    "{1: 2}": KIND.format(6),
    "a.b{}": KIND.format(8),
    "'x'": KIND.format(5),
    "a.?b": "CEL parse error: unsupported syntax '.?'",
    "namespace": "CEL parse error: reserved identifier: namespace",
    bounds("0x8000000000000000"): "CEL parse error: invalid int literal",
    WHOLE_LINE[:-1]: f"{SYNTAX}missing ')' at '<EOF>'",
    f"f({WHOLE_LINE[:-1]}": f"{SYNTAX}mismatched input '<EOF>' expecting ')'",
    f"{WHOLE_LINE})": f"{SYNTAX}extraneous input ')' expecting <EOF>",
    f"{WHOLE_LINE} x y": f"{SYNTAX}mismatched input 'x' expecting <EOF>",
    f"shardRange({UID} {ZERO})": f"{SYNTAX}extraneous input '{ZERO}' expecting ')'",
    f"{WHOLE_LINE} ||": f"{SYNTAX}mismatched input '<EOF>' expecting {BEGINS}",
    f"|| {WHOLE_LINE}": f"{SYNTAX}extraneous input '||' expecting {BEGINS}",
    "f(,": f"{SYNTAX}mismatched input ',' expecting {BEGINS_OR_CLOSES}",
    "[1 2]": f"{SYNTAX}extraneous input '2' expecting {{']', ','}}",
    "{1 2}": f"{SYNTAX}missing ':' at '2'",
    "x.": f"{SYNTAX}no viable alternative at input '.'",
    f"{WHOLE_LINE} | x": f"{SYNTAX}token recognition error at: '| '",
    "shardRange('": f"{SYNTAX}token recognition error at: '''",
    r"'\q'": rf"{SYNTAX}token recognition error at: ''\q'",
    "(" * 250 + "x" + ")" * 250: "CEL parse error: expression recursion limit exceeded: 250",
    "x" + ".y" * 300: "CEL parse error: max recursion depth exceeded",
}
