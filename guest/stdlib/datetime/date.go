package datetime

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// date is a date.
type date struct{ year, month, day int }

var (
	_ starlark.HasAttrs   = date{}
	_ starlark.Comparable = date{}
	_ starlark.HasBinary  = date{}
	_ stdlib.Texter       = date{}
	_ stdlib.Formatter    = date{}
)

func (d date) ordinal() int { return ordinal(d.year, d.month, d.day) }

// dateOf returns the date of an ordinal.
func dateOf(n int) (date, error) {
	if n < 1 || n > maxOrdinal {
		return date{}, stdlib.Errorf(stdlib.OverflowError, "date value out of range")
	}
	y, m, d := fromOrdinal(n)
	return date{y, m, d}, nil
}

func dateValue(d date, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (d date) String() string { return d.Repr(nil) }

// Repr is datetime.date(2024, 1, 31).
func (d date) Repr(func(starlark.Value) string) string {
	return fmt.Sprintf("datetime.date(%d, %d, %d)", d.year, d.month, d.day)
}

// Str is the ISO form.
func (d date) Str() string { return fmt.Sprintf("%04d-%02d-%02d", d.year, d.month, d.day) }

// Format is strftime.
func (d date) Format(spec string) (string, error) { return d.moment().strftime(spec) }

// moment is midnight of the date.
func (d date) moment() moment { return moment{date: d} }

func (date) Type() string            { return "date" }
func (date) Freeze()                 {}
func (date) Truth() starlark.Bool    { return true }
func (d date) Hash() (uint32, error) { return uint32(d.ordinal()), nil }

// CompareSameType compares dates.
func (d date) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	return holds(op, d.ordinal()-y.(date).ordinal()), nil
}

// Binary is d + timedelta, d - timedelta and d - d.
func (d date) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) {
	case delta:
		if op == syntax.PLUS {
			return dateValue(dateOf(d.ordinal() + y.days))
		}
		if op == syntax.MINUS && side == starlark.Left {
			return dateValue(dateOf(d.ordinal() - y.days))
		}
	case date:
		if op == syntax.MINUS && side == starlark.Left {
			return delta{days: d.ordinal() - y.ordinal()}, nil
		}
	}
	return nil, nil
}

func (date) AttrNames() []string {
	return []string{"ctime", "day", "isocalendar", "isoformat", "isoweekday", "month", "replace", "strftime", "timetuple", "toordinal", "weekday", "year"}
}

func (d date) Attr(name string) (starlark.Value, error) {
	switch name {
	case "year":
		return starlark.MakeInt(d.year), nil
	case "month":
		return starlark.MakeInt(d.month), nil
	case "day":
		return starlark.MakeInt(d.day), nil
	}
	if m := stdlib.Method(d, name, dateMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

// dated is implemented by dates and datetimes, which share methods.
type dated interface{ theDate() date }

func (d date) theDate() date { return d }

// dateMethod is a method without arguments.
func dateMethod(f func(d date) starlark.Value) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		return f(c.Receiver.(dated).theDate()), c.Unpack()
	}
}

var isoCalendarDate = collections.NewTupleType("datetime.IsoCalendarDate", []string{"year", "week", "weekday"})

// sharedMethods are methods of both dates and datetimes.
var sharedMethods = map[string]stdlib.Func{
	"weekday":    dateMethod(func(d date) starlark.Value { return starlark.MakeInt(weekday(d.ordinal())) }),
	"isoweekday": dateMethod(func(d date) starlark.Value { return starlark.MakeInt(weekday(d.ordinal()) + 1) }),
	"toordinal":  dateMethod(func(d date) starlark.Value { return starlark.MakeInt(d.ordinal()) }),
	"isocalendar": dateMethod(func(d date) starlark.Value {
		y, w, wd := isoCalendar(d.year, d.ordinal())
		return isoCalendarDate.Make(starlark.MakeInt(y), starlark.MakeInt(w), starlark.MakeInt(wd))
	}),
}

var dateMethods = withShared(map[string]stdlib.Func{
	"isoformat": func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.String(c.Receiver.(date).Str()), c.Unpack()
	},
	"ctime": func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.String(c.Receiver.(date).moment().ctime()), c.Unpack()
	},
	"timetuple": func(c *stdlib.Call) (starlark.Value, error) {
		return c.Receiver.(date).moment().tuple(-1), c.Unpack()
	},
	"strftime": func(c *stdlib.Call) (starlark.Value, error) {
		var format string
		if err := c.Unpack("format", &format); err != nil {
			return nil, err
		}
		s, err := c.Receiver.(date).Format(format)
		return starlark.String(s), err
	},
	"replace": func(c *stdlib.Call) (starlark.Value, error) {
		d := c.Receiver.(date)
		if err := c.Unpack("year?", &d.year, "month?", &d.month, "day?", &d.day); err != nil {
			return nil, err
		}
		return dateValue(d, checkDate(d.year, d.month, d.day))
	},
})

func withShared(methods map[string]stdlib.Func) map[string]stdlib.Func {
	for name, f := range sharedMethods {
		methods[name] = f
	}
	return methods
}

func dateClass() *stdlib.Class {
	c := class("date", func(c *stdlib.Call) (starlark.Value, error) {
		var d date
		if err := c.Unpack("year", &d.year, "month", &d.month, "day", &d.day); err != nil {
			return nil, err
		}
		return dateValue(d, checkDate(d.year, d.month, d.day))
	}, func(v starlark.Value) bool { _, ok := v.(dated); return ok }, map[string]stdlib.Func{
		"today": func(c *stdlib.Call) (starlark.Value, error) {
			m, err := now(c)
			if err != nil {
				return nil, err
			}
			return m.date, c.Unpack()
		},
		"fromtimestamp": func(c *stdlib.Call) (starlark.Value, error) {
			var t starlark.Value
			if err := c.Unpack("timestamp", &t, "/", nil); err != nil {
				return nil, err
			}
			micros, err := timestampMicros(t)
			if err != nil {
				return nil, err
			}
			m, err := momentOf(micros)
			return dateValue(m.date, err)
		},
		"fromordinal": func(c *stdlib.Call) (starlark.Value, error) {
			var n int
			if err := c.Unpack("ordinal", &n, "/", nil); err != nil {
				return nil, err
			}
			return dateValue(ordinalDate(n))
		},
		"fromisoformat": func(c *stdlib.Call) (starlark.Value, error) {
			s, err := text(c, "date_string")
			if err != nil {
				return nil, err
			}
			return dateValue(parseISODate(c, s))
		},
		"fromisocalendar": func(c *stdlib.Call) (starlark.Value, error) {
			return dateValue(fromISOCalendar(c))
		},
	})
	c.Attrs["min"], c.Attrs["max"], c.Attrs["resolution"] = date{1, 1, 1}, date{9999, 12, 31}, delta{days: 1}
	return c
}

func ordinalDate(n int) (date, error) {
	if n < 1 {
		return date{}, stdlib.Errorf(stdlib.ValueError, "ordinal must be >= 1")
	}
	d, err := dateOf(n)
	if err != nil {
		err = stdlib.Errorf(stdlib.ValueError, "year is out of range")
	}
	return d, err
}

func fromISOCalendar(c *stdlib.Call) (date, error) {
	var year, week, wd int
	if err := c.Unpack("year", &year, "week", &week, "day", &wd); err != nil {
		return date{}, err
	}
	return isoDate(year, week, wd)
}

// isoDate returns the date of an ISO year, week and day.
func isoDate(year, week, wd int) (date, error) {
	if year < minYear || year > maxYear {
		return date{}, stdlib.Errorf(stdlib.ValueError, "Year is out of range: %d", year)
	}
	first := isoWeek1(year)
	if week < 1 || week > 53 || week == 53 && isoWeek1(year+1) == first+52*7 {
		return date{}, stdlib.Errorf(stdlib.ValueError, "Invalid week: %d", week)
	}
	if wd < 1 || wd > 7 {
		return date{}, stdlib.Errorf(stdlib.ValueError, "Invalid weekday: %d (range is [1, 7])", wd)
	}
	return ordinalDate(first + (week-1)*7 + wd - 1)
}
