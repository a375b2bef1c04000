"""Arithmetic with quantities such as `500m` and `2Gi`, with the canonical text of Go's `resource.Quantity`."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from ctrlhost_sandbox.schema.normalize import amount

_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SMALL = 1024


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and how it is written: `decimal` (`1k`), `binary` (`1Ki`) or `exponent` (`1e3`)."""

    amount: Decimal = Decimal(0)
    form: str = "decimal"

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Parse a valid quantity."""
        form = "decimal"
        if text.endswith("i"):
            form = "binary"
        elif text[-1].isdigit() and "e" in text.lower():
            form = "exponent"
        return cls(amount(text), form)

    def __add__(self, other: Quantity) -> Quantity:
        """Add; zero takes the form of the other one."""
        return Quantity(self.amount + other.amount, self.form if self.amount else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        """Subtract; zero takes the form of the other one."""
        return Quantity(self.amount - other.amount, self.form if self.amount else other.form)

    def __str__(self) -> str:
        """Return the text with the largest suffix that leaves no fraction."""
        if self.form == "binary" and abs(self.amount) >= _SMALL:
            return _shortened(_whole(self.amount), 1024, _BINARY)
        number = _whole(self.amount.scaleb(9))
        if self.form == "exponent":
            return _shortened(number, 1000, ["e-9", "e-6", "e-3", "", *(f"e{power}" for power in range(3, 19, 3))])
        return _shortened(number, 1000, _DECIMAL)


def _whole(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_CEILING))


def _shortened(number: int, base: int, suffixes: tuple[str, ...] | list[str]) -> str:
    if not number:
        return "0"
    at = 0
    while number % base == 0 and at < len(suffixes) - 1:
        number, at = number // base, at + 1
    return f"{number}{suffixes[at]}"


Amounts = dict[str, Quantity]
"""Quantities by the name of their resource."""


def parsed(resources: dict[str, str] | None) -> Amounts:
    """Parse a list of resources."""
    return {name: Quantity.parse(text) for name, text in (resources or {}).items()}


def texts_of(amounts: Amounts) -> dict[str, str]:
    """Return a list of resources in wire form."""
    return {name: str(quantity) for name, quantity in sorted(amounts.items())}


def add(left: Amounts, right: Amounts) -> Amounts:
    """Add each resource."""
    result = dict(left)
    for name, quantity in right.items():
        result[name] = result[name] + quantity if name in result else quantity
    return result


def largest(left: Amounts, right: Amounts) -> Amounts:
    """Return the larger quantity of each resource."""
    result = dict(left)
    for name, quantity in right.items():
        if name not in result or quantity.amount > result[name].amount:
            result[name] = quantity
    return result
