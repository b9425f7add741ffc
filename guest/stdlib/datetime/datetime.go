// Package datetime is Python's modules datetime, time and zoneinfo. Begin with [Module], [Time] and
// moment. The current time is the time of the run: the same in all calls of a script. The local
// zone is UTC.
package datetime

import (
	"fmt"
	"math"
	"math/big"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
)

// The range of years.
const (
	minYear = 1
	maxYear = 9999
)

// Module returns the module datetime.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "datetime", Members: starlark.StringDict{
		"timedelta": deltaClass(), "timezone": timezoneClass(), "date": dateClass(),
		"datetime": momentClass(), "time": clockClass(), "tzinfo": tzinfoClass(),
		"UTC": utc, "MINYEAR": starlark.MakeInt(minYear), "MAXYEAR": starlark.MakeInt(maxYear),
	}}
}

// ZoneInfo returns the module zoneinfo.
func ZoneInfo() *stdlib.Module {
	return &stdlib.Module{Name: "zoneinfo", Members: starlark.StringDict{
		"ZoneInfo": zoneInfoClass(), "ZoneInfoNotFoundError": stdlib.ErrorClass(notFoundClass, stdlib.KeyError, stdlib.LookupError),
	}}
}

// class returns a class. f makes the values, statics are functions of the class.
func class(name string, f stdlib.Func, is func(starlark.Value) bool, statics map[string]stdlib.Func) *stdlib.Class {
	return &stdlib.Class{
		Named: "datetime." + name,
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return f(&stdlib.Call{Thread: thread, Name: name, Args: args, Kwargs: kwargs})
		},
		Is:    is,
		Attrs: stdlib.Funcs(statics),
	}
}

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

// daysBefore are the days before each month of a common year.
var daysBefore = [13]int{0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334}

func isLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int) int {
	switch {
	case month == 2 && isLeap(year):
		return 29
	case month == 12:
		return 31
	}
	return daysBefore[month+1] - daysBefore[month]
}

// dayOfYear is 1 for January 1st.
func dayOfYear(year, month, day int) int {
	n := daysBefore[month] + day
	if month > 2 && isLeap(year) {
		n++
	}
	return n
}

// ordinal is 1 for January 1st of year 1.
func ordinal(year, month, day int) int {
	y := year - 1
	return y*365 + y/4 - y/100 + y/400 + dayOfYear(year, month, day)
}

// maxOrdinal is the ordinal of the last day of year 9999.
const maxOrdinal = 3652059

// fromOrdinal returns the day of an ordinal.
func fromOrdinal(n int) (year, month, day int) {
	n--
	n400, n := n/146097, n%146097
	n100, n := n/36524, n%36524
	n4, n := n/1461, n%1461
	n1, n := n/365, n%365
	year = n400*400 + n100*100 + n4*4 + n1 + 1
	if n1 == 4 || n100 == 4 {
		return year - 1, 12, 31
	}
	for month = 12; month > 1; month-- {
		before := daysBefore[month]
		if month > 2 && isLeap(year) {
			before++
		}
		if n >= before {
			return year, month, n - before + 1
		}
	}
	return year, 1, n + 1
}

// weekday is 0 for Monday.
func weekday(ordinal int) int { return (ordinal + 6) % 7 }

// isoWeek1 returns the ordinal of the Monday with which the ISO year begins.
func isoWeek1(year int) int {
	first := ordinal(year, 1, 1)
	day := weekday(first)
	monday := first - day
	if day > 3 {
		monday += 7
	}
	return monday
}

// isoCalendar returns the ISO year, week and day (1 is Monday) of an ordinal.
func isoCalendar(year, n int) (isoYear, week, day int) {
	monday := isoWeek1(year)
	if n < monday {
		year--
		monday = isoWeek1(year)
	} else if next := isoWeek1(year + 1); n >= next {
		year, monday = year+1, next
	}
	return year, (n-monday)/7 + 1, (n-monday)%7 + 1
}

func checkDate(year, month, day int) error {
	switch {
	case year < minYear || year > maxYear:
		return stdlib.Errorf(stdlib.ValueError, "year %d is out of range", year)
	case month < 1 || month > 12:
		return stdlib.Errorf(stdlib.ValueError, "month must be in 1..12")
	case day < 1 || day > daysIn(year, month):
		return stdlib.Errorf(stdlib.ValueError, "day is out of range for month")
	}
	return nil
}

func checkTime(hour, minute, second, micro, fold int) error {
	switch {
	case hour < 0 || hour > 23:
		return stdlib.Errorf(stdlib.ValueError, "hour must be in 0..23")
	case minute < 0 || minute > 59:
		return stdlib.Errorf(stdlib.ValueError, "minute must be in 0..59")
	case second < 0 || second > 59:
		return stdlib.Errorf(stdlib.ValueError, "second must be in 0..59")
	case micro < 0 || micro > 999999:
		return stdlib.Errorf(stdlib.ValueError, "microsecond must be in 0..999999")
	case fold != 0 && fold != 1:
		return stdlib.Errorf(stdlib.ValueError, "fold must be either 0 or 1")
	}
	return nil
}

// floorDiv and floorMod round down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

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
