// Package math is Python's module math.
// The last digit of a result of exp, sin and the like can differ from Python's, which
// takes them from the system's C library.
package math

import (
	gomath "math"
	"math/big"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module math.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"ceil": whole(gomath.Ceil), "floor": whole(gomath.Floor), "trunc": whole(gomath.Trunc),
		"comb": comb, "perm": perm, "factorial": factorial, "gcd": gcd, "lcm": lcm, "isqrt": isqrt,
		"fsum": fsum, "prod": prod, "dist": dist, "hypot": hypot, "sumprod": sumprod,
		"log": log, "log2": logBase(2), "log10": logBase(10),
		"pow": pow, "fmod": fmod, "ldexp": ldexp, "frexp": frexp, "modf": modf,
		"degrees": scaled(180 / gomath.Pi), "radians": scaled(gomath.Pi / 180),
		"isclose": isClose, "nextafter": nextAfter,
	})
	for name, f := range unary {
		members[name] = stdlib.NewFunc(name, function(f))
	}
	for name, f := range binary {
		members[name] = stdlib.NewFunc(name, function2(f))
	}
	for name, f := range tests {
		members[name] = stdlib.NewFunc(name, test(f))
	}
	for name, f := range constants {
		members[name] = starlark.Float(f)
	}
	return &stdlib.Module{Name: "math", Members: members}
}

var constants = map[string]float64{
	"pi": gomath.Pi, "e": gomath.E, "tau": 2 * gomath.Pi, "inf": gomath.Inf(1), "nan": gomath.NaN(),
}

var unary = map[string]func(float64) float64{
	"acos": gomath.Acos, "acosh": gomath.Acosh, "asin": gomath.Asin, "asinh": gomath.Asinh,
	"atan": gomath.Atan, "atanh": atanh, "cbrt": gomath.Cbrt, "cos": gomath.Cos, "cosh": gomath.Cosh,
	"erf": gomath.Erf, "erfc": gomath.Erfc, "exp": gomath.Exp, "exp2": gomath.Exp2, "expm1": gomath.Expm1,
	"fabs": gomath.Abs, "gamma": gamma, "lgamma": lgamma, "log1p": log1p,
	"round": gomath.Round, // of Starlark
	"sin":   gomath.Sin, "sinh": gomath.Sinh, "sqrt": gomath.Sqrt, "tan": gomath.Tan, "tanh": gomath.Tanh,
	"ulp": ulp,
}

var binary = map[string]func(x, y float64) float64{
	"atan2": gomath.Atan2, "copysign": gomath.Copysign, "remainder": gomath.Remainder,
	"mod": mod, // of Starlark
}

var tests = map[string]func(float64) bool{
	"isfinite": func(x float64) bool { return !gomath.IsInf(x, 0) && !gomath.IsNaN(x) },
	"isinf":    func(x float64) bool { return gomath.IsInf(x, 0) },
	"isnan":    gomath.IsNaN,
}

var (
	errDomain = stdlib.Errorf(stdlib.ValueError, "math domain error")
	errRange  = stdlib.Errorf(stdlib.OverflowError, "math range error")
)

// checked returns a result, or an error if it is not finite though the arguments are.
func checked(result float64, args ...float64) (starlark.Value, error) {
	if gomath.IsNaN(result) || gomath.IsInf(result, 0) {
		for _, x := range args {
			if gomath.IsNaN(x) {
				return starlark.Float(result), nil
			}
		}
		if gomath.IsNaN(result) {
			return nil, errDomain
		}
		for _, x := range args {
			if gomath.IsInf(x, 0) {
				return starlark.Float(result), nil
			}
		}
		return nil, errRange
	}
	return starlark.Float(result), nil
}

// oneArg returns the argument of a function that takes one number by position.
func oneArg(c *stdlib.Call) (starlark.Value, error) {
	if len(c.Args) != 1 || len(c.Kwargs) > 0 {
		return nil, c.Errorf(stdlib.TypeError, "takes exactly one argument (%d given)", len(c.Args)+len(c.Kwargs))
	}
	return c.Args[0], nil
}

func floatArg(c *stdlib.Call) (float64, error) {
	v, err := oneArg(c)
	if err != nil {
		return 0, err
	}
	return stdlib.Float(v)
}

func twoFloats(c *stdlib.Call) (x, y float64, err error) {
	err = c.Unpack("x", &x, "y", &y, "/", nil)
	return x, y, err
}

func function(f func(float64) float64) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		x, err := floatArg(c)
		if err != nil {
			return nil, err
		}
		return checked(f(x), x)
	}
}

// scaled multiplies; the result may be infinite.
func scaled(by float64) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		x, err := floatArg(c)
		return starlark.Float(x * by), err
	}
}

func function2(f func(x, y float64) float64) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		x, y, err := twoFloats(c)
		if err != nil {
			return nil, err
		}
		return checked(f(x, y), x, y)
	}
}

func test(f func(float64) bool) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		x, err := floatArg(c)
		return starlark.Bool(f(x)), err
	}
}

// whole is a function with an integer result.
func whole(f func(float64) float64) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		v, err := oneArg(c)
		if err != nil {
			return nil, err
		}
		if n, ok := stdlib.Integer(v); ok {
			return n, nil
		}
		if o, ok := v.(stdlib.Object); ok {
			if w, err := o.CallMethod("__" + c.Name + "__"); w != nil || err != nil {
				return w, err
			}
		}
		x, err := stdlib.Float(v)
		if err != nil {
			return nil, err
		}
		return toInt(f(x))
	}
}

func toInt(x float64) (starlark.Value, error) {
	switch {
	case gomath.IsNaN(x):
		return nil, stdlib.Errorf(stdlib.ValueError, "cannot convert float NaN to integer")
	case gomath.IsInf(x, 0):
		return nil, stdlib.Errorf(stdlib.OverflowError, "cannot convert float infinity to integer")
	}
	if gomath.Abs(x) < 1<<62 {
		return starlark.MakeInt64(int64(x)), nil
	}
	n, _ := big.NewFloat(x).Int(nil)
	return starlark.MakeBigInt(n), nil
}

func atanh(x float64) float64 {
	if gomath.Abs(x) == 1 {
		return gomath.NaN()
	}
	return gomath.Atanh(x)
}

func log1p(x float64) float64 {
	if x == -1 {
		return gomath.NaN()
	}
	return gomath.Log1p(x)
}

func gamma(x float64) float64 {
	if x == 0 || x < 0 && x == gomath.Floor(x) {
		return gomath.NaN() // a domain error, of -inf too
	}
	return gomath.Gamma(x)
}

func lgamma(x float64) float64 {
	if gomath.IsInf(x, 0) {
		return gomath.Inf(1)
	}
	if x <= 0 && x == gomath.Floor(x) {
		return gomath.NaN()
	}
	if gomath.Abs(x) < 0x1p-70 {
		return -ln(gomath.Abs(x), gomath.Log)
	}
	y, _ := gomath.Lgamma(x)
	return y
}

func ulp(x float64) float64 {
	x = gomath.Abs(x)
	if gomath.IsNaN(x) || gomath.IsInf(x, 0) {
		return x
	}
	if x == gomath.MaxFloat64 {
		return x - gomath.Nextafter(x, 0)
	}
	return gomath.Nextafter(x, gomath.Inf(1)) - x
}

// mod has the sign of y.
func mod(x, y float64) float64 {
	r := gomath.Mod(x, y)
	if r != 0 && (r < 0) != (y < 0) {
		r += y
	}
	return r
}

func fmod(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := twoFloats(c)
	if err != nil {
		return nil, err
	}
	return checked(gomath.Mod(x, y), x, y)
}

func pow(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := twoFloats(c)
	if err != nil {
		return nil, err
	}
	if x == 0 && y < 0 && !gomath.IsInf(y, 0) {
		return nil, errDomain
	}
	return checked(gomath.Pow(x, y), x, y)
}

func nextAfter(c *stdlib.Call) (starlark.Value, error) {
	x, y, err := twoFloats(c)
	return starlark.Float(gomath.Nextafter(x, y)), err
}

func ldexp(c *stdlib.Call) (starlark.Value, error) {
	var x float64
	var n starlark.Int
	if err := c.Unpack("x", &x, "i", &n, "/", nil); err != nil {
		return nil, err
	}
	const most = 1 << 20
	exp, ok := n.Int64()
	if !ok || exp > most || exp < -most {
		exp = int64(n.Sign()) * most
	}
	return checked(gomath.Ldexp(x, int(exp)), x)
}

func frexp(c *stdlib.Call) (starlark.Value, error) {
	x, err := floatArg(c)
	m, e := gomath.Frexp(x)
	return starlark.Tuple{starlark.Float(m), starlark.MakeInt(e)}, err
}

func modf(c *stdlib.Call) (starlark.Value, error) {
	x, err := floatArg(c)
	i, f := gomath.Modf(x)
	if gomath.IsInf(x, 0) {
		f = 0
	}
	return starlark.Tuple{starlark.Float(gomath.Copysign(f, x)), starlark.Float(i)}, err
}

func isClose(c *stdlib.Call) (starlark.Value, error) {
	var a, b, absolute float64
	relative := 1e-9
	if err := c.Unpack("a", &a, "b", &b, "*", nil, "rel_tol?", &relative, "abs_tol?", &absolute); err != nil {
		return nil, err
	}
	if relative < 0 || absolute < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "tolerances must be non-negative")
	}
	if a == b {
		return starlark.True, nil
	}
	if gomath.IsInf(a, 0) || gomath.IsInf(b, 0) {
		return starlark.False, nil
	}
	d := gomath.Abs(b - a)
	return starlark.Bool(d <= gomath.Abs(relative*b) || d <= gomath.Abs(relative*a) || d <= absolute), nil
}

// ln is log of x. The assembly of some systems is wrong for the smallest floats.
func ln(x float64, log func(float64) float64) float64 {
	const least = 0x1p-1022
	if 0 < x && x < least {
		return log(x*0x1p54) - 54*log(2)
	}
	return log(x)
}

// logarithm is the natural logarithm of any integer or float.
func logarithm(v starlark.Value, base int) (float64, error) {
	of := func(x float64) float64 {
		switch base {
		case 2:
			return gomath.Log2(x)
		case 10:
			return ln(x, gomath.Log10)
		}
		return ln(x, gomath.Log)
	}
	if n, ok := stdlib.Integer(v); ok {
		if n.Sign() <= 0 {
			return 0, errDomain
		}
		if f := float64(n.Float()); !gomath.IsInf(f, 0) {
			return of(f), nil
		}
		// n is m * 2**e with 0.5 <= m < 1.
		m := new(big.Float).SetPrec(64).SetInt(n.BigInt())
		e := m.MantExp(m)
		f, _ := m.Float64()
		return of(f) + float64(e)*of(2), nil
	}
	x, err := stdlib.Float(v)
	if err != nil {
		return 0, err
	}
	if x <= 0 {
		return 0, errDomain
	}
	return of(x), nil
}

func logBase(base int) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		v, err := oneArg(c)
		if err != nil {
			return nil, err
		}
		x, err := logarithm(v, base)
		return starlark.Float(x), err
	}
}

func log(c *stdlib.Call) (starlark.Value, error) {
	var x, base starlark.Value
	if err := c.Unpack("x", &x, "base?", &base, "/", nil); err != nil {
		return nil, err
	}
	num, err := logarithm(x, 0)
	if err != nil || base == nil {
		return starlark.Float(num), err
	}
	den, err := logarithm(base, 0)
	if err != nil {
		return nil, err
	}
	if den == 0 {
		return nil, stdlib.Errorf(stdlib.ZeroDivisionError, "float division by zero")
	}
	return starlark.Float(num / den), nil
}
