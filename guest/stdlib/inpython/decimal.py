# Python's decimal, for scripts. A Decimal is sign, coef and exp: (-1)**sign * coef *
# 10**exp, or special: "Infinity" or "NaN". The algorithms are those of Python's own
# implementation, so results have the same digits.

import math

ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR = "ROUND_CEILING", "ROUND_DOWN", "ROUND_FLOOR"
ROUND_HALF_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP = "ROUND_HALF_DOWN", "ROUND_HALF_EVEN", "ROUND_HALF_UP"
ROUND_UP, ROUND_05UP = "ROUND_UP", "ROUND_05UP"

class DecimalException(ArithmeticError):
    pass

class InvalidOperation(DecimalException):
    pass

class DivisionByZero(DecimalException, ZeroDivisionError):
    pass

# An exponent beyond this is an error, so that no operation makes endless digits.
LARGEST = 999_999

class Context:
    def __init__(self, prec=28, rounding=ROUND_HALF_EVEN, **others):
        self.prec, self.rounding = prec, rounding

    def copy(self):
        return Context(self.prec, self.rounding)

    def create_decimal(self, x="0"):
        return fixed(Decimal(x), self)

    def quantize(self, x, exp):
        return Decimal(x).quantize(Decimal(exp), context=self)

    def divide(self, x, y):
        return divide(Decimal(x), Decimal(y), self)

    def __repr__(self):
        return f"Context(prec={self.prec}, rounding={self.rounding})"

current = [Context()]

def getcontext():
    return current[0]

def setcontext(context):
    current[0] = context

def digits(n):
    return len(str(n))

def rounded(sign, coef, drop, rounding):
    """Returns coef without its last digits, rounded."""
    if drop > digits(coef) + 1:
        coef, drop = (1 if coef else 0), 2
    q, rest = divmod(coef, 10 ** drop)
    if rest == 0:
        return q
    twice, whole = 2 * rest, 10 ** drop
    if rounding == ROUND_HALF_EVEN:
        up = twice > whole or twice == whole and q % 2 == 1
    elif rounding == ROUND_HALF_UP:
        up = twice >= whole
    elif rounding == ROUND_HALF_DOWN:
        up = twice > whole
    elif rounding == ROUND_UP:
        up = True
    elif rounding == ROUND_DOWN:
        up = False
    elif rounding == ROUND_CEILING:
        up = sign == 0
    elif rounding == ROUND_FLOOR:
        up = sign == 1
    elif rounding == ROUND_05UP:
        up = q % 5 == 0
    else:
        raise TypeError(f"invalid rounding mode: {rounding}")
    return q + 1 if up else q

def make(sign, coef, exp, special=""):
    d = Decimal(None)
    d.sign, d.coef, d.exp, d.special = sign, coef, exp, special
    return d

NAN = None  # set below, when there is a class

def fixed(d, context=None):
    """Rounds to the precision of the context."""
    if d.special:
        return d
    context = context or current[0]
    over = digits(d.coef) - context.prec
    if over > 0:
        coef, exp = rounded(d.sign, d.coef, over, context.rounding), d.exp + over
        if digits(coef) > context.prec:
            coef, exp = coef // 10, exp + 1
        d = make(d.sign, coef, exp)
    if d.coef and d.adjusted() > LARGEST:
        raise OverflowError("the exponent of a Decimal is too large")
    return d

def rescaled(d, exp, rounding):
    """Returns d with another exponent."""
    if d.coef == 0:
        return make(d.sign, 0, exp)
    if d.exp >= exp:
        if d.exp - exp > LARGEST:
            raise OverflowError("the exponent of a Decimal is too large")
        return make(d.sign, d.coef * 10 ** (d.exp - exp), exp)
    return make(d.sign, rounded(d.sign, d.coef, exp - d.exp, rounding), exp)

def parsed(text):
    """Returns sign, coef, exp and special of a text."""
    body = text.strip().replace("_", "")
    sign = 1 if body[:1] == "-" else 0
    if body[:1] in ("+", "-"):
        body = body[1:]
    low = body.lower()
    if low in ("inf", "infinity"):
        return sign, 0, 0, "Infinity"
    if low == "nan":
        return sign, 0, 0, "NaN"
    mantissa, e, exponent = low.partition("e")
    whole, _, part = mantissa.partition(".")
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if not (whole + part).isdecimal() or e and not power.isdecimal():
        raise InvalidOperation("[<class 'decimal.ConversionSyntax'>]")
    return sign, int(whole + part), int(exponent or "0") - len(part), ""

def operand(x):
    """Returns a number that takes part in arithmetic as a Decimal, or None."""
    if isinstance(x, Decimal):
        return x
    return Decimal(x) if isinstance(x, int) else None

class Decimal:
    def __init__(self, value="0", context=None):
        self.special = ""
        if value is None:
            return
        if isinstance(value, Decimal):
            self.sign, self.coef, self.exp, self.special = value.sign, value.coef, value.exp, value.special
        elif isinstance(value, str):
            self.sign, self.coef, self.exp, self.special = parsed(value)
        elif isinstance(value, int):
            self.sign, self.coef, self.exp = (1 if value < 0 else 0), abs(int(value)), 0
        elif isinstance(value, float):
            if math.isinf(value) or math.isnan(value):
                self.sign, self.coef, self.exp, self.special = parsed(str(value))
            else:
                n, d = value.as_integer_ratio()
                k = d.bit_length() - 1
                self.sign = 1 if math.copysign(1.0, value) < 0 else 0
                self.coef, self.exp = abs(n) * 5 ** k, -k
        elif isinstance(value, (tuple, list)):
            sign, coef, exp = value
            self.sign, self.coef, self.exp = sign, int("".join([str(n) for n in coef]) or "0"), exp
        else:
            raise TypeError(f"conversion from {type(value).__name__} to Decimal is not supported")

    @classmethod
    def from_float(cls, x):
        return cls(x)

    def as_tuple(self):
        return (self.sign, tuple([int(c) for c in str(self.coef)]), self.exp)

    def as_integer_ratio(self):
        if self.special:
            raise ValueError(f"cannot convert {self.special} to integer ratio")
        n = -self.coef if self.sign else self.coef
        if self.exp >= 0:
            return n * 10 ** self.exp, 1
        d = 10 ** -self.exp
        shared = math.gcd(n, d)
        return n // shared, d // shared

    def adjusted(self):
        return self.exp + digits(self.coef) - 1

    def is_nan(self):
        return self.special == "NaN"

    def is_infinite(self):
        return self.special == "Infinity"

    def is_finite(self):
        return not self.special

    def is_zero(self):
        return not self.special and self.coef == 0

    def is_signed(self):
        return self.sign == 1

    def copy_abs(self):
        return make(0, self.coef, self.exp, self.special) if self.special else make(0, self.coef, self.exp)

    def copy_negate(self):
        return make(1 - self.sign, self.coef, self.exp, self.special)

    def copy_sign(self, other):
        return make(Decimal(other).sign, self.coef, self.exp, self.special)

    def quantize(self, exp, rounding=None, context=None):
        context = context or current[0]
        exp = Decimal(exp)
        if self.special or exp.special:
            if self.special == exp.special == "Infinity":
                return self
            if "NaN" in (self.special, exp.special):
                return NAN
            raise InvalidOperation("quantize with one INF")
        if self.coef and self.adjusted() - exp.exp + 1 > context.prec:
            raise InvalidOperation("quantize result has too many digits for current context")
        out = rescaled(self, exp.exp, rounding or context.rounding)
        if digits(out.coef) > context.prec:
            raise InvalidOperation("quantize result has too many digits for current context")
        return out

    def normalize(self, context=None):
        d = fixed(self, context)
        if d.special:
            return d
        if d.coef == 0:
            return make(d.sign, 0, 0)
        coef, exp = d.coef, d.exp
        while coef % 10 == 0:
            coef, exp = coef // 10, exp + 1
        return make(d.sign, coef, exp)

    def to_integral_value(self, rounding=None, context=None):
        if self.special or self.exp >= 0:
            return self
        return rescaled(self, 0, rounding or (context or current[0]).rounding)

    def to_integral(self, rounding=None, context=None):
        return self.to_integral_value(rounding, context)

    def sqrt(self, context=None):
        context = context or current[0]
        if self.special == "NaN" or self.is_infinite() and not self.sign:
            return self
        if self.coef == 0 and not self.special:
            return make(self.sign, 0, self.exp // 2)
        if self.sign:
            raise InvalidOperation("sqrt(-x), x > 0")
        e, c, n = self.exp >> 1, self.coef, digits(self.coef)
        if self.exp % 2:
            c, length = c * 10, (n >> 1) + 1
        else:
            length = n + 1 >> 1
        shift = context.prec + 1 - length
        exact = True
        if shift >= 0:
            c *= 100 ** shift
        else:
            c, rest = divmod(c, 100 ** -shift)
            exact = rest == 0
        e -= shift
        n = math.isqrt(c)
        if exact and n * n == c:
            n = n // 10 ** shift if shift >= 0 else n * 10 ** -shift
            e += shift
        elif n % 5 == 0:
            n += 1
        return fixed(make(0, n, e), Context(context.prec))

    def compare(self, other):
        other = Decimal(other)
        if "NaN" in (self.special, other.special):
            return NAN
        return Decimal(ordering(self, other))

    def max(self, other):
        other = Decimal(other)
        return fixed(self if ordering(self, other) >= 0 else other)

    def min(self, other):
        other = Decimal(other)
        return fixed(self if ordering(self, other) <= 0 else other)

    def scaleb(self, n):
        return self if self.special else fixed(make(self.sign, self.coef, self.exp + int(n)))

    def conjugate(self):
        return self

    def __add__(self, other):
        other = operand(other)
        return NotImplemented if other is None else add(self, other)

    def __radd__(self, other):
        return self.__add__(other)

    def __sub__(self, other):
        other = operand(other)
        return NotImplemented if other is None else add(self, other.copy_negate())

    def __rsub__(self, other):
        other = operand(other)
        return NotImplemented if other is None else add(other, self.copy_negate())

    def __mul__(self, other):
        other = operand(other)
        return NotImplemented if other is None else multiply(self, other)

    def __rmul__(self, other):
        return self.__mul__(other)

    def __truediv__(self, other):
        other = operand(other)
        return NotImplemented if other is None else divide(self, other)

    def __rtruediv__(self, other):
        other = operand(other)
        return NotImplemented if other is None else divide(other, self)

    def __floordiv__(self, other):
        other = operand(other)
        return NotImplemented if other is None else divided(self, other)[0]

    def __rfloordiv__(self, other):
        other = operand(other)
        return NotImplemented if other is None else divided(other, self)[0]

    def __mod__(self, other):
        other = operand(other)
        return NotImplemented if other is None else remainder(self, other)

    def __rmod__(self, other):
        other = operand(other)
        return NotImplemented if other is None else remainder(other, self)

    def __divmod__(self, other):
        other = operand(other)
        return NotImplemented if other is None else divided(self, other)

    def __pow__(self, other):
        other = operand(other)
        return NotImplemented if other is None else power(self, other)

    def __rpow__(self, other):
        other = operand(other)
        return NotImplemented if other is None else power(other, self)

    def __neg__(self):
        return fixed(self.copy_abs() if self.is_zero() else self.copy_negate())

    def __pos__(self):
        return fixed(self.copy_abs() if self.is_zero() else self)

    def __abs__(self):
        return fixed(self.copy_abs())

    def __int__(self):
        if self.special:
            raise (ValueError if self.is_nan() else OverflowError)(f"cannot convert {self.special} to integer")
        return self.__trunc__()

    def __trunc__(self):
        d = rescaled(self, 0, ROUND_DOWN)
        return -d.coef if d.sign else d.coef

    def __floor__(self):
        d = rescaled(self, 0, ROUND_FLOOR)
        return -d.coef if d.sign else d.coef

    def __ceil__(self):
        d = rescaled(self, 0, ROUND_CEILING)
        return -d.coef if d.sign else d.coef

    def __round__(self, ndigits=None):
        if ndigits is None:
            d = rescaled(self, 0, ROUND_HALF_EVEN)
            return -d.coef if d.sign else d.coef
        return self.quantize(make(0, 1, -ndigits), rounding=ROUND_HALF_EVEN)

    def __float__(self):
        return float(str(self))

    def __bool__(self):
        return bool(self.special) or self.coef != 0

    def __hash__(self):
        if self.special:
            return hash(self.special)
        if self.exp >= 0 or self == self.to_integral_value():
            return hash(int(self))
        d = self.normalize(Context(digits(self.coef)))
        return hash((d.sign, d.coef, d.exp))

    def __eq__(self, other):
        return compared(self, other, lambda c: c == 0, False)

    def __lt__(self, other):
        return compared(self, other, lambda c: c < 0)

    def __le__(self, other):
        return compared(self, other, lambda c: c <= 0)

    def __gt__(self, other):
        return compared(self, other, lambda c: c > 0)

    def __ge__(self, other):
        return compared(self, other, lambda c: c >= 0)

    def __str__(self):
        if self.special:
            return "-" * self.sign + self.special
        left = self.exp + digits(self.coef)
        return "-" * self.sign + written(self, left, left if self.exp <= 0 and left > -6 else 1, "E")

    def __repr__(self):
        return f"Decimal('{self}')"

    def __format__(self, spec):
        return formatted(self, spec) if spec else str(self)

    def __json__(self):
        return str(self)

NAN = make(0, 0, 0, "NaN")

def written(d, left, dot, letter, always=False, group=""):
    """Returns the digits with a dot at a place, and the exponent that remains."""
    text = str(d.coef)
    if dot <= 0:
        whole, part = "0", "0" * -dot + text
    elif dot >= len(text):
        whole, part = text + "0" * (dot - len(text)), ""
    else:
        whole, part = text[:dot], text[dot:]
    if group:
        whole = format(int(whole), group)
    exponent = f"{letter}{left - dot:+d}" if always or left != dot else ""
    return whole + ("." + part if part else "") + exponent

def formatted(d, spec):
    fill, align, rest = " ", ">", spec
    if len(rest) > 1 and rest[1] in "<>=^":
        fill, align, rest = rest[0], rest[1], rest[2:]
    elif rest[:1] in ("<", ">", "=", "^"):
        align, rest = rest[0], rest[1:]
    plus, rest = (rest[0], rest[1:]) if rest[:1] in ("+", "-", " ") else ("-", rest)
    if rest[:1] == "0":
        fill, align, rest = "0", "=", rest[1:]
    number = ""
    while rest[:1].isdigit():
        number, rest = number + rest[0], rest[1:]
    width = int(number or "0")
    group, rest = (rest[0], rest[1:]) if rest[:1] in (",", "_") else ("", rest)
    precision = None
    if rest[:1] == ".":
        number, rest = "", rest[1:]
        while rest[:1].isdigit():
            number, rest = number + rest[0], rest[1:]
        precision = int(number)
    kind = rest or "G"
    if kind not in ("e", "E", "f", "F", "g", "G", "%"):
        raise ValueError("invalid format string")
    body, sign = d.special, d.sign
    if not d.special:
        if kind == "%":
            d = make(d.sign, d.coef, d.exp + 2)
        if precision is not None:
            if kind in "eE":
                d = significant(d, precision + 1)
            elif kind in "fF%":
                d = rescaled(d, -precision, current[0].rounding)
            elif digits(d.coef) > max(precision, 1):
                d = significant(d, max(precision, 1))
        if d.coef == 0 and d.exp > 0 and kind in "fF%":
            d = rescaled(d, 0, ROUND_DOWN)
        left = d.exp + digits(d.coef)
        if kind in "eE":
            dot = 1 - precision if d.coef == 0 and precision is not None else 1
        elif kind in "fF%":
            dot = left
        else:
            dot = left if d.exp <= 0 and left > -6 else 1
        body = written(d, left, dot, "e" if kind in "eg" else "E", kind in "eE", group)
        if kind == "%":
            body += "%"
    lead = "-" if sign else (plus if plus in "+ " else "")
    missing = width - len(lead) - len(body)
    if missing <= 0:
        return lead + body
    if align == "<":
        return lead + body + fill * missing
    if align == "=":
        return lead + fill * missing + body
    if align == "^":
        return fill * (missing // 2) + lead + body + fill * (missing - missing // 2)
    return fill * missing + lead + body

def significant(d, n):
    """Rounds to a number of digits, or adds zeros; 0 stays as it is."""
    if d.coef == 0:
        return d
    out = rescaled(d, d.adjusted() + 1 - n, current[0].rounding)
    if digits(out.coef) > n:
        out = rescaled(out, out.exp + 1, current[0].rounding)
    return out

def ordering(x, y):
    """Returns -1, 0 or 1."""
    if x.special or y.special:
        a = 0 if not x.special else (-1 if x.sign else 1)
        b = 0 if not y.special else (-1 if y.sign else 1)
        return (a > b) - (a < b)
    if x.coef == 0 or y.coef == 0 or x.sign != y.sign:
        a = 0 if x.coef == 0 else (-1 if x.sign else 1)
        b = 0 if y.coef == 0 else (-1 if y.sign else 1)
        return (a > b) - (a < b)
    side = -1 if x.sign else 1
    if x.adjusted() != y.adjusted():
        return side if x.adjusted() > y.adjusted() else -side
    exp = min(x.exp, y.exp)
    a, b = x.coef * 10 ** (x.exp - exp), y.coef * 10 ** (y.exp - exp)
    return side * ((a > b) - (a < b))

def compared(x, y, test, otherwise=NotImplemented):
    y = Decimal(y) if isinstance(y, float) else operand(y)
    if y is None:
        return otherwise
    if "NaN" in (x.special, y.special):
        if otherwise is NotImplemented:
            raise InvalidOperation("comparison involving NaN")
        return False
    return test(ordering(x, y))

def add(x, y):
    if x.special or y.special:
        if "NaN" in (x.special, y.special):
            return NAN
        if x.special and y.special and x.sign != y.sign:
            raise InvalidOperation("-INF + INF")
        return x if x.special else y
    context = current[0]
    exp = min(x.exp, y.exp)
    floor = context.rounding == ROUND_FLOOR and x.sign != y.sign
    if x.coef == 0 and y.coef == 0:
        return fixed(make(1 if floor else min(x.sign, y.sign), 0, exp))
    if x.coef == 0:
        return fixed(rescaled(y, max(exp, y.exp - context.prec - 1), context.rounding))
    if y.coef == 0:
        return fixed(rescaled(x, max(exp, x.exp - context.prec - 1), context.rounding))
    high, low = (x, y) if x.exp >= y.exp else (y, x)
    # A number that is too small to matter only counts for the direction of rounding.
    least = high.exp + min(-1, digits(high.coef) - context.prec - 2)
    if digits(low.coef) + low.exp - 1 < least:
        low = make(low.sign, 1, least)
    a, b = high.coef * 10 ** (high.exp - low.exp), low.coef
    total = (-a if high.sign else a) + (-b if low.sign else b)
    if total == 0:
        return fixed(make(1 if floor else 0, 0, exp))
    return fixed(make(1 if total < 0 else 0, abs(total), low.exp))

def multiply(x, y):
    sign = x.sign ^ y.sign
    if x.special or y.special:
        if "NaN" in (x.special, y.special):
            return NAN
        if not x or not y:
            raise InvalidOperation("(+-)INF * 0")
        return make(sign, 0, 0, "Infinity")
    return fixed(make(sign, x.coef * y.coef, x.exp + y.exp))

def divide(x, y, context=None):
    context = context or current[0]
    sign = x.sign ^ y.sign
    if x.special or y.special:
        if "NaN" in (x.special, y.special):
            return NAN
        if x.special and y.special:
            raise InvalidOperation("(+-)INF/(+-)INF")
        return make(sign, 0, 0, "Infinity") if x.special else make(sign, 0, -LARGEST)
    if y.coef == 0:
        if x.coef == 0:
            raise InvalidOperation("[<class 'decimal.DivisionUndefined'>]")
        raise DivisionByZero("[<class 'decimal.DivisionByZero'>]")
    if x.coef == 0:
        return fixed(make(sign, 0, x.exp - y.exp), context)
    shift = digits(y.coef) - digits(x.coef) + context.prec + 1
    exp = x.exp - y.exp - shift
    if shift >= 0:
        coef, rest = divmod(x.coef * 10 ** shift, y.coef)
    else:
        coef, rest = divmod(x.coef, y.coef * 10 ** -shift)
    if rest:
        if coef % 5 == 0:
            coef += 1
    else:
        while exp < x.exp - y.exp and coef % 10 == 0:
            coef, exp = coef // 10, exp + 1
    return fixed(make(sign, coef, exp), context)

def divided(x, y):
    """Returns the quotient, without digits after the dot, and the rest."""
    sign = x.sign ^ y.sign
    if "NaN" in (x.special, y.special):
        return NAN, NAN
    if x.special:
        raise InvalidOperation("INF % x")
    if y.special:
        return make(sign, 0, 0), fixed(x)
    if y.coef == 0:
        if x.coef == 0:
            raise InvalidOperation("[<class 'decimal.DivisionUndefined'>]")
        raise DivisionByZero("[<class 'decimal.DivisionByZero'>]")
    exp = min(x.exp, y.exp)
    if x.adjusted() - y.adjusted() <= -2:
        return make(sign, 0, 0), fixed(rescaled(x, exp, ROUND_DOWN))
    if x.adjusted() - y.adjusted() > current[0].prec:
        raise InvalidOperation("[<class 'decimal.DivisionImpossible'>]")
    q, r = divmod(x.coef * 10 ** (x.exp - exp), y.coef * 10 ** (y.exp - exp))
    if q >= 10 ** current[0].prec:
        raise InvalidOperation("[<class 'decimal.DivisionImpossible'>]")
    return make(sign, q, 0), fixed(make(x.sign, r, exp))

def remainder(x, y):
    if x and not y and "NaN" not in (x.special, y.special):
        raise InvalidOperation("x % 0")
    return divided(x, y)[1]

def power(x, y):
    if "NaN" in (x.special, y.special):
        return NAN
    if y.special or y != y.to_integral_value():
        raise InvalidOperation("** takes an integer here (for a root, sqrt(), or floats)")
    n = int(y)
    if n == 0:
        if not x:
            raise InvalidOperation("0 ** 0")
        return Decimal(1)
    sign = x.sign if n % 2 else 0
    if x.special:
        return make(sign, 0, 0, "Infinity") if n > 0 else make(sign, 0, 0)
    if x.coef == 0:
        if n > 0:
            return make(sign, 0, 0)
        return make(sign, 0, 0, "Infinity")
    if abs(n) * digits(x.coef) > 100_000 and x.coef != 1:
        raise OverflowError("the result of ** has too many digits before it is rounded")
    out = make(sign, x.coef ** abs(n), x.exp * abs(n))
    return fixed(out) if n > 0 else divide(Decimal(1), out)

DefaultContext, BasicContext, ExtendedContext = Context(), Context(9, ROUND_HALF_UP), Context(9)

return {
    "BasicContext": BasicContext, "Context": Context, "Decimal": Decimal, "DecimalException": DecimalException,
    "DefaultContext": DefaultContext, "DivisionByZero": DivisionByZero, "ExtendedContext": ExtendedContext,
    "InvalidOperation": InvalidOperation, "ROUND_CEILING": ROUND_CEILING, "ROUND_DOWN": ROUND_DOWN,
    "ROUND_FLOOR": ROUND_FLOOR, "ROUND_HALF_DOWN": ROUND_HALF_DOWN, "ROUND_HALF_EVEN": ROUND_HALF_EVEN,
    "ROUND_HALF_UP": ROUND_HALF_UP, "ROUND_UP": ROUND_UP, "ROUND_05UP": ROUND_05UP,
    "getcontext": getcontext, "setcontext": setcontext,
}
