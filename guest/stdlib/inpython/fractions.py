# Python's fractions, for scripts. Values are exact.

import math

def parse(text):
    sign, body = 1, text.strip().replace("_", "")
    if body[:1] in ("+", "-"):
        sign, body = (-1 if body[0] == "-" else 1), body[1:]
    top, slash, bottom = body.partition("/")
    if slash:
        if not (top.isdigit() and bottom.isdigit()):
            raise ValueError(f"Invalid literal for Fraction: {text!r}")
        return sign * int(top), int(bottom)
    mantissa, _, exponent = body.lower().partition("e")
    whole, _, part = mantissa.partition(".")
    digits = whole + part
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if not digits.isdigit() or "e" in body.lower() and not power.isdigit():
        raise ValueError(f"Invalid literal for Fraction: {text!r}")
    scale = int(exponent or "0") - len(part)
    if abs(scale) > 100_000:
        raise ValueError("the exponent of a Fraction is too large")
    n = sign * int(digits)
    return (n * 10 ** scale, 1) if scale >= 0 else (n, 10 ** -scale)

def ratio(x):
    """Returns the numerator and denominator of a number, or None."""
    if isinstance(x, Fraction):
        return x.numerator, x.denominator
    if isinstance(x, int):
        return int(x), 1
    return None

class Fraction:
    def __init__(self, numerator=0, denominator=None):
        if denominator is None:
            if isinstance(numerator, str):
                n, d = parse(numerator)
            elif ratio(numerator):
                n, d = ratio(numerator)
            elif hasattr(numerator, "as_integer_ratio"):
                n, d = numerator.as_integer_ratio()
            else:
                raise TypeError("argument should be a string or a Rational instance")
        else:
            a, b = ratio(numerator), ratio(denominator)
            if a is None or b is None:
                raise TypeError("both arguments should be Rational instances")
            n, d = a[0] * b[1], a[1] * b[0]
        if d == 0:
            raise ZeroDivisionError(f"Fraction({n}, 0)")
        shared = math.gcd(n, d) * (-1 if d < 0 else 1)
        self.numerator, self.denominator = n // shared, d // shared

    @classmethod
    def from_float(cls, x):
        return cls(x)

    @classmethod
    def from_decimal(cls, x):
        return cls(x)

    def as_integer_ratio(self):
        return self.numerator, self.denominator

    def is_integer(self):
        return self.denominator == 1

    def conjugate(self):
        return self

    def limit_denominator(self, max_denominator=1_000_000):
        if max_denominator < 1:
            raise ValueError("max_denominator should be at least 1")
        if self.denominator <= max_denominator:
            return Fraction(self)
        p0, q0, p1, q1 = 0, 1, 1, 0
        n, d = self.numerator, self.denominator
        while True:
            a = n // d
            q2 = q0 + a * q1
            if q2 > max_denominator:
                break
            p0, q0, p1, q1 = p1, q1, p0 + a * p1, q2
            n, d = d, n - a * d
        k = (max_denominator - q0) // q1
        if 2 * d * (q0 + k * q1) <= self.denominator:
            return Fraction(p1, q1)
        return Fraction(p0 + k * p1, q0 + k * q1)

    def __add__(self, other):
        return combine(self, other, lambda a, b, c, d: Fraction(a * d + c * b, b * d), lambda x, y: x + y)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return combine(self, other, lambda a, b, c, d: Fraction(a * d - c * b, b * d), lambda x, y: x - y)

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        return combine(self, other, lambda a, b, c, d: Fraction(a * c, b * d), lambda x, y: x * y)

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return combine(self, other, lambda a, b, c, d: Fraction(a * d, b * c), lambda x, y: x / y)

    def __rtruediv__(self, other):
        return reflect(self, other, lambda x, y: x / y)

    def __floordiv__(self, other):
        return combine(self, other, lambda a, b, c, d: (a * d) // (b * c), lambda x, y: x // y)

    def __rfloordiv__(self, other):
        return reflect(self, other, lambda x, y: x // y)

    def __mod__(self, other):
        return combine(self, other, lambda a, b, c, d: Fraction((a * d) % (c * b), b * d), lambda x, y: x % y)

    def __rmod__(self, other):
        return reflect(self, other, lambda x, y: x % y)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __pow__(self, other):
        if isinstance(other, Fraction) and other.denominator == 1:
            other = other.numerator
        if not isinstance(other, int):
            return float(self) ** float(other)
        if other >= 0:
            return Fraction(self.numerator ** other, self.denominator ** other)
        return Fraction(self.denominator ** -other, self.numerator ** -other)

    def __rpow__(self, other):
        if self.denominator == 1:
            return other ** self.numerator
        return float(other) ** float(self)

    def __neg__(self):
        return Fraction(-self.numerator, self.denominator)

    def __pos__(self):
        return Fraction(self)

    def __abs__(self):
        return Fraction(abs(self.numerator), self.denominator)

    def __int__(self):
        return self.__trunc__()

    def __trunc__(self):
        n = abs(self.numerator) // self.denominator
        return n if self.numerator >= 0 else -n

    def __floor__(self):
        return self.numerator // self.denominator

    def __ceil__(self):
        return -(-self.numerator // self.denominator)

    def __round__(self, ndigits=None):
        if ndigits is not None:
            scale = 10 ** abs(ndigits)
            return Fraction(round(self * scale), scale) if ndigits > 0 else Fraction(round(self / scale) * scale)
        floor, rest = divmod(self.numerator, self.denominator)
        if rest * 2 < self.denominator or rest * 2 == self.denominator and floor % 2 == 0:
            return floor
        return floor + 1

    def __float__(self):
        return self.numerator / self.denominator

    def __bool__(self):
        return self.numerator != 0

    def __hash__(self):
        return hash(self.numerator) if self.denominator == 1 else hash((self.numerator, self.denominator))

    def __eq__(self, other):
        return compare(self, other, lambda x, y: x == y, False)

    def __lt__(self, other):
        return compare(self, other, lambda x, y: x < y)

    def __le__(self, other):
        return compare(self, other, lambda x, y: x <= y)

    def __gt__(self, other):
        return compare(self, other, lambda x, y: x > y)

    def __ge__(self, other):
        return compare(self, other, lambda x, y: x >= y)

    def __str__(self):
        return str(self.numerator) if self.denominator == 1 else f"{self.numerator}/{self.denominator}"

    def __repr__(self):
        return f"Fraction({self.numerator}, {self.denominator})"

    def __format__(self, spec):
        return format(float(self), spec) if spec else str(self)

    def __json__(self):
        return str(self)

def combine(x, y, exact, inexact):
    """Applies an operator to a fraction and another number."""
    if isinstance(y, float):
        return inexact(float(x), y)
    other = ratio(y)
    if other is None:
        return NotImplemented
    return exact(x.numerator, x.denominator, other[0], other[1])

def reflect(x, y, operator):
    """Applies an operator to a number and a fraction."""
    if isinstance(y, float):
        return operator(y, float(x))
    return operator(Fraction(y), x) if ratio(y) else NotImplemented

def compare(x, y, test, otherwise=NotImplemented):
    if isinstance(y, float):
        if y != y or y in (float("inf"), float("-inf")):
            return test(0.0, y)
        y = Fraction(y)
    other = ratio(y)
    if other is None:
        return otherwise
    return test(x.numerator * other[1], other[0] * x.denominator)

return {"Fraction": Fraction}
