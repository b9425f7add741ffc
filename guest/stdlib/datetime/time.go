package datetime

import (
	"math"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// Time returns the module time. The clocks stand still at the time of the run, and sleep does not
// wait.
func Time() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"time": seconds, "monotonic": elapsed, "perf_counter": elapsed, "process_time": elapsed,
		"time_ns": nanoseconds, "monotonic_ns": elapsed, "perf_counter_ns": elapsed,
		"sleep": sleep, "gmtime": gmtime, "localtime": gmtime, "mktime": mktime,
		"strftime": timeFormat, "strptime": timeParse, "ctime": timeText, "asctime": timeText,
	})
	members["timezone"], members["daylight"] = starlark.MakeInt(0), starlark.MakeInt(0)
	members["altzone"] = starlark.MakeInt(0)
	members["tzname"] = starlark.Tuple{starlark.String("UTC"), starlark.String("UTC")}
	members["struct_time"] = &stdlib.Class{Named: "time.struct_time", New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		c := &stdlib.Call{Thread: thread, Name: "struct_time", Args: args, Kwargs: kwargs}
		var v starlark.Value
		if err := c.Unpack("iterable", &v); err != nil {
			return nil, err
		}
		values, err := c.Elements(v)
		if err == nil && len(values) != 9 {
			err = stdlib.Errorf(stdlib.TypeError, "time.struct_time() takes a 9-sequence (%d-sequence given)", len(values))
		}
		if err != nil {
			return nil, err
		}
		return structTime.Make(values...), nil
	}, Is: structTime.Instance}
	return &stdlib.Module{Name: "time", Members: members}
}

func seconds(c *stdlib.Call) (starlark.Value, error) {
	t, err := c.Env().Now()
	if err != nil {
		return nil, err
	}
	return starlark.Float(ofSmall(t.UnixMicro()).seconds64()), c.Unpack()
}

func nanoseconds(c *stdlib.Call) (starlark.Value, error) {
	t, err := c.Env().Now()
	if err != nil {
		return nil, err
	}
	return starlark.MakeInt64(t.UnixNano()), c.Unpack()
}

// elapsed is 0: no time passes for a script.
func elapsed(c *stdlib.Call) (starlark.Value, error) {
	if c.Name == "monotonic_ns" || c.Name == "perf_counter_ns" {
		return starlark.MakeInt(0), c.Unpack()
	}
	return starlark.Float(0), c.Unpack()
}

func sleep(c *stdlib.Call) (starlark.Value, error) {
	var secs float64
	if err := c.Unpack("seconds", &secs, "/", nil); err != nil {
		return nil, err
	}
	if secs < 0 || math.IsNaN(secs) {
		return nil, badValue("sleep length must be non-negative")
	}
	return starlark.None, nil
}

// timeArgument reads an optional timestamp.
func timeArgument(c *stdlib.Call) (moment, error) {
	var t starlark.Value
	if err := c.Unpack("seconds??", &t, "/", nil); err != nil {
		return moment{}, err
	}
	if t == nil {
		return now(c)
	}
	micros, err := timestampMicros(t)
	if err != nil {
		return moment{}, err
	}
	return momentOf(floorDiv(micros, second) * second)
}

func gmtime(c *stdlib.Call) (starlark.Value, error) {
	m, err := timeArgument(c)
	return m.tuple(0), err
}

// ofTuple returns the time of a struct_time, or of a tuple of nine numbers.
func ofTuple(v starlark.Value) (moment, error) {
	if like, ok := v.(stdlib.TupleLike); ok {
		v = like.AsTuple()
	}
	t, ok := v.(starlark.Tuple)
	if !ok || len(t) != 9 {
		return moment{}, stdlib.Errorf(stdlib.TypeError, "Tuple or struct_time argument required")
	}
	var n [6]int
	for i := range n {
		var err error
		if n[i], err = stdlib.Int(t[i]); err != nil {
			return moment{}, err
		}
	}
	m := moment{date{n[0], max(n[1], 1), max(n[2], 1)}, clock{hour: n[3], minute: n[4], second: n[5]}}
	err := checkDate(m.year, m.month, m.day)
	if err == nil {
		err = checkTime(m.hour, m.minute, min(m.second, 59), 0, 0)
	}
	return m, err
}

func mktime(c *stdlib.Call) (starlark.Value, error) {
	var t starlark.Value
	if err := c.Unpack("t", &t, "/", nil); err != nil {
		return nil, err
	}
	m, err := ofTuple(t)
	return starlark.Float(m.localSeconds()), err
}

func timeFormat(c *stdlib.Call) (starlark.Value, error) {
	var format string
	var t starlark.Value
	if err := c.Unpack("format", &format, "t?", &t, "/", nil); err != nil {
		return nil, err
	}
	m, err := now(c)
	if t != nil {
		m, err = ofTuple(t)
	}
	if err != nil {
		return nil, err
	}
	m.clock.zone = utc
	s, err := m.strftime(format)
	return starlark.String(s), err
}

func timeParse(c *stdlib.Call) (starlark.Value, error) {
	var s string
	format := "%a %b %d %H:%M:%S %Y"
	if err := c.Unpack("string", &s, "format?", &format, "/", nil); err != nil {
		return nil, err
	}
	p, err := parseTime(c, s, format)
	if err != nil {
		return nil, err
	}
	return p.tuple(-1), nil
}

func timeText(c *stdlib.Call) (starlark.Value, error) {
	var m moment
	var err error
	if len(c.Args) == 1 && c.Name == "asctime" {
		m, err = ofTuple(c.Args[0])
	} else {
		m, err = timeArgument(c)
	}
	if err != nil {
		return nil, err
	}
	return starlark.String(m.ctime()), nil
}

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
