package datetime

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

var (
	_ starlark.HasAttrs   = clock{}
	_ starlark.Comparable = clock{}
	_ stdlib.Texter       = clock{}
	_ stdlib.Formatter    = clock{}
)

func (t clock) String() string { return t.Repr(stdlib.PlainRepr) }

// Repr is datetime.time(12, 30).
func (t clock) Repr(repr func(starlark.Value) string) string {
	return "datetime.time(" + t.repr(repr)
}

// Str is the ISO form.
func (t clock) Str() string {
	s, _ := t.isoOffset("auto")
	return s
}

func (t clock) isoOffset(spec string) (string, error) {
	s, err := t.iso(spec)
	if z, ok := t.zone.(fixedZone); ok {
		s += offsetText(z.offset, ":")
	}
	return s, err
}

// Format is strftime.
func (t clock) Format(spec string) (string, error) {
	return moment{date{1900, 1, 1}, t}.strftime(spec)
}

func (clock) Type() string            { return "time" }
func (clock) Freeze()                 {}
func (clock) Truth() starlark.Bool    { return true }
func (t clock) Hash() (uint32, error) { return uint32(t.micros()) ^ uint32(t.micros()>>32), nil }

func (t clock) micros() int64 {
	return int64(t.hour*3600+t.minute*60+t.second)*second + int64(t.micro)
}

// utcMicros is the time without the offset.
func (t clock) utcMicros() int64 {
	if z, ok := t.zone.(fixedZone); ok {
		return t.micros() - int64(z.offset.days)*day - int64(z.offset.seconds)*second - int64(z.offset.micros)
	}
	return t.micros()
}

// CompareSameType compares times of day.
func (t clock) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	other := y.(clock)
	_, aware := t.zone.(fixedZone)
	_, otherAware := other.zone.(fixedZone)
	if aware != otherAware {
		return onlyEquality(op, cannotCompare("times"))
	}
	return holds(op, compare(t.utcMicros(), other.utcMicros())), nil
}

func (clock) AttrNames() []string {
	return []string{"dst", "fold", "hour", "isoformat", "microsecond", "minute", "replace", "second", "strftime", "tzinfo", "tzname", "utcoffset"}
}

func (t clock) Attr(name string) (starlark.Value, error) {
	if v := t.field(name); v != nil {
		return v, nil
	}
	if m := stdlib.Method(t, name, clockMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

var clockMethods = map[string]stdlib.Func{
	"isoformat": func(c *stdlib.Call) (starlark.Value, error) {
		spec := "auto"
		if err := c.Unpack("timespec?", &spec); err != nil {
			return nil, err
		}
		s, err := c.Receiver.(clock).isoOffset(spec)
		return starlark.String(s), err
	},
	"strftime": func(c *stdlib.Call) (starlark.Value, error) {
		var format string
		if err := c.Unpack("format", &format); err != nil {
			return nil, err
		}
		s, err := c.Receiver.(clock).Format(format)
		return starlark.String(s), err
	},
	"replace": func(c *stdlib.Call) (starlark.Value, error) {
		t := c.Receiver.(clock)
		tz := t.field("tzinfo")
		return unpackClock(c, t, tz)
	},
	"utcoffset": func(c *stdlib.Call) (starlark.Value, error) {
		if z, ok := c.Receiver.(clock).zone.(fixedZone); ok {
			return z.offset, c.Unpack()
		}
		return starlark.None, c.Unpack()
	},
	"tzname": func(c *stdlib.Call) (starlark.Value, error) {
		if z, ok := c.Receiver.(clock).zone.(fixedZone); ok {
			return starlark.String(z.Str()), c.Unpack()
		}
		return starlark.None, c.Unpack()
	},
	"dst": func(c *stdlib.Call) (starlark.Value, error) { return starlark.None, c.Unpack() },
}

// unpackClock reads the fields of a time; missing fields are unchanged.
func unpackClock(c *stdlib.Call, t clock, tz starlark.Value) (starlark.Value, error) {
	err := c.Unpack("hour?", &t.hour, "minute?", &t.minute, "second?", &t.second, "microsecond?", &t.micro, "tzinfo?", &tz, "*", nil, "fold?", &t.fold)
	if err == nil {
		t.zone, err = unpackZone(tz)
	}
	if err == nil {
		err = checkTime(t.hour, t.minute, t.second, t.micro, t.fold)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func clockClass() *stdlib.Class {
	c := class("time", func(c *stdlib.Call) (starlark.Value, error) { return unpackClock(c, clock{}, nil) },
		func(v starlark.Value) bool { _, ok := v.(clock); return ok }, map[string]stdlib.Func{
			"fromisoformat": func(c *stdlib.Call) (starlark.Value, error) {
				s, err := text(c, "time_string")
				if err != nil {
					return nil, err
				}
				t, err := parseISOTime(c, s)
				if err != nil {
					return nil, err
				}
				return t, nil
			},
		})
	c.Attrs["min"], c.Attrs["max"] = clock{}, clock{hour: 23, minute: 59, second: 59, micro: 999999}
	c.Attrs["resolution"] = delta{micros: 1}
	return c
}
