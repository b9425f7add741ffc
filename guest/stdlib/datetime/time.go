package datetime

import (
	"math"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
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
