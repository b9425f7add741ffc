package datetime

import (
	"math"
	"math/big"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// unpackZone reads an argument with a zone or None.
func unpackZone(v starlark.Value) (zone, error) {
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return nil, nil
	case zone:
		return v, nil
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "tzinfo argument must be None or of a tzinfo subclass, not type '%s'", stdlib.TypeName(v))
}

// seconds1970 is the number of seconds since 1970 of a local time, as if in UTC.
func seconds1970(ordinal, hour, minute, second int) int64 {
	const days1970 = 719163
	return int64(ordinal-days1970)*86400 + int64(hour*3600+minute*60+second)
}

// timestampMicros returns a timestamp in microseconds, rounded half to even.
func timestampMicros(v starlark.Value) (int64, error) {
	const most = 1 << 53
	if n, ok := stdlib.Integer(v); ok {
		s, ok := n.Int64()
		if !ok || s > most || s < -most {
			return 0, stdlib.Errorf(stdlib.OverflowError, "timestamp out of range for platform time_t")
		}
		if s > 253402300799 || s < -62135596800 {
			return 0, stdlib.Errorf(stdlib.ValueError, "year is out of range")
		}
		return s * second, nil
	}
	f, err := stdlib.Float(v)
	switch {
	case err != nil:
		return 0, err
	case math.IsNaN(f):
		return 0, stdlib.Errorf(stdlib.ValueError, "Invalid value NaN (not a number)")
	case math.Abs(f) > most:
		return 0, stdlib.Errorf(stdlib.OverflowError, "timestamp out of range for platform time_t")
	case f > 253402300800 || f < -62135596800:
		return 0, stdlib.Errorf(stdlib.ValueError, "year is out of range")
	}
	r := new(big.Rat).SetFloat64(f)
	return nearest(r.Mul(r, big.NewRat(second, 1))).Int64(), nil
}

// cannotCompare is the error for < and the like of two values of the same type.
func cannotCompare(what string) error {
	return stdlib.Errorf(stdlib.TypeError, "can't compare offset-naive and offset-aware %s", what)
}

// onlyEquality is the answer to a comparison of unequal types.
func onlyEquality(op syntax.Token, err error) (bool, error) {
	switch op {
	case syntax.EQL:
		return false, nil
	case syntax.NEQ:
		return true, nil
	}
	return false, err
}

// text reads the only argument, text.
func text(c *stdlib.Call, name string) (string, error) {
	var s string
	err := c.Unpack(name, &s, "/", nil)
	return s, err
}
