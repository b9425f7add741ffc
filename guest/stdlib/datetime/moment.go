package datetime

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
)

// clock is a time of the day.
type clock struct {
	hour, minute, second, micro, fold int
	zone                              zone // nil for none
}

// moment is a datetime.
type moment struct {
	date
	clock
}

var (
	_ starlark.HasAttrs   = moment{}
	_ starlark.Comparable = moment{}
	_ starlark.HasBinary  = moment{}
	_ stdlib.Texter       = moment{}
	_ stdlib.Formatter    = moment{}
)

// momentOf returns the time in UTC, without a zone, of microseconds since 1970.
func momentOf(micros int64) (moment, error) {
	d := ofSmall(micros)
	const days1970 = 719163
	on, err := dateOf(d.days + days1970)
	if err != nil {
		err = stdlib.Errorf(stdlib.ValueError, "year is out of range")
	}
	return moment{on, clock{hour: d.seconds / 3600, minute: d.seconds / 60 % 60, second: d.seconds % 60, micro: d.micros}}, err
}

// now returns the time of the run in UTC, without a zone.
func now(c *stdlib.Call) (moment, error) {
	t, err := c.Env().Now()
	if err != nil {
		return moment{}, err
	}
	return momentOf(t.UnixMicro())
}

func momentValue(m moment, err error) (starlark.Value, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m moment) localSeconds() int64 {
	return seconds1970(m.ordinal(), m.hour, m.minute, m.second)
}

// local is the local time in microseconds since 1970, as if in UTC.
func (m moment) local() int64 { return m.localSeconds()*second + int64(m.micro) }

// offset returns the offset from UTC; ok is false without a zone.
func (m moment) offset() (micros int64, ok bool) {
	if m.clock.zone == nil {
		return 0, false
	}
	d, _, _ := m.clock.zone.at(m.localSeconds(), m.fold)
	return int64(d.days)*day + int64(d.seconds)*second + int64(d.micros), true
}

// instant is the time in microseconds since 1970. Without a zone the time is in UTC.
func (m moment) instant() int64 {
	offset, _ := m.offset()
	return m.local() - offset
}

// in returns the same instant in a zone.
func (m moment) in(z zone) (moment, error) {
	instant := m.instant()
	offset, fold := z.from(floorDiv(instant, second))
	out, err := momentOf(instant + int64(offset.days)*day + int64(offset.seconds)*second + int64(offset.micros))
	if err != nil {
		return out, stdlib.Errorf(stdlib.OverflowError, "date value out of range")
	}
	out.clock.zone, out.fold = z, fold
	return out, nil
}

// plus adds microseconds to the local time.
func (m moment) plus(d delta) (moment, error) {
	const most = 4 * 1000 * 1000 // days
	if d.days > most || d.days < -most {
		return m, stdlib.Errorf(stdlib.OverflowError, "date value out of range")
	}
	out, err := momentOf(m.local() + int64(d.days)*day + int64(d.seconds)*second + int64(d.micros))
	if err != nil {
		return m, stdlib.Errorf(stdlib.OverflowError, "date value out of range")
	}
	out.clock.zone = m.clock.zone
	return out, nil
}

func (m moment) String() string { return m.Repr(stdlib.PlainRepr) }

// Repr is datetime.datetime(2024, 1, 31, 12, 0).
func (m moment) Repr(repr func(starlark.Value) string) string {
	return fmt.Sprintf("datetime.datetime(%d, %d, %d, %s", m.year, m.month, m.day, m.clock.repr(repr))
}

// repr is the time in the text of a time or datetime, with an ending.
func (t clock) repr(repr func(starlark.Value) string) string {
	text := fmt.Sprintf("%d, %d", t.hour, t.minute)
	if t.second != 0 || t.micro != 0 {
		text += fmt.Sprintf(", %d", t.second)
	}
	if t.micro != 0 {
		text += fmt.Sprintf(", %d", t.micro)
	}
	if t.fold != 0 {
		text += ", fold=1"
	}
	if t.zone != nil {
		text += ", tzinfo=" + repr(t.zone)
	}
	return text + ")"
}

// Str is the ISO form with a space.
func (m moment) Str() string {
	s, _ := m.iso(" ", "auto")
	return s
}

// Format is strftime.
func (m moment) Format(spec string) (string, error) { return m.strftime(spec) }

// iso is isoformat.
func (m moment) iso(sep, spec string) (string, error) {
	t, err := m.clock.iso(spec)
	text := m.date.Str() + sep + t
	if offset, ok := m.offset(); ok {
		text += offsetText(ofSmall(offset), ":")
	}
	return text, err
}

// iso is the ISO form without the offset.
func (t clock) iso(spec string) (string, error) {
	if spec == "auto" {
		spec = "seconds"
		if t.micro != 0 {
			spec = "microseconds"
		}
	}
	switch spec {
	case "hours":
		return fmt.Sprintf("%02d", t.hour), nil
	case "minutes":
		return fmt.Sprintf("%02d:%02d", t.hour, t.minute), nil
	case "seconds":
		return fmt.Sprintf("%02d:%02d:%02d", t.hour, t.minute, t.second), nil
	case "milliseconds":
		return fmt.Sprintf("%02d:%02d:%02d.%03d", t.hour, t.minute, t.second, t.micro/1000), nil
	case "microseconds":
		return fmt.Sprintf("%02d:%02d:%02d.%06d", t.hour, t.minute, t.second, t.micro), nil
	}
	return "", stdlib.Errorf(stdlib.ValueError, "Unknown timespec value")
}

func (m moment) ctime() string {
	return fmt.Sprintf("%s %s %2d %02d:%02d:%02d %04d", dayNames[weekday(m.ordinal())][:3], monthNames[m.month-1][:3], m.day, m.hour, m.minute, m.second, m.year)
}

func (moment) Type() string            { return "datetime" }
func (moment) Freeze()                 {}
func (moment) Truth() starlark.Bool    { return true }
func (m moment) Hash() (uint32, error) { i := m.instant(); return uint32(i) ^ uint32(i>>32), nil }
func (m moment) theDate() date         { return m.date }

// CompareSameType compares instants. Times with and without zone are never equal.
func (m moment) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	other := y.(moment)
	if (m.clock.zone == nil) != (other.clock.zone == nil) {
		return onlyEquality(op, cannotCompare("datetimes"))
	}
	if sameZone(m.clock.zone, other.clock.zone) { // then Python compares local times
		return holds(op, compare(m.local(), other.local())), nil
	}
	return holds(op, compare(m.instant(), other.instant())), nil
}

// sameZone reports whether two zones are identical in Python, which makes each ZoneInfo once.
func sameZone(x, y zone) bool {
	a, ok := x.(namedZone)
	b, ok2 := y.(namedZone)
	if ok && ok2 {
		return a.location.String() == b.location.String()
	}
	return x == y
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Binary is m + timedelta, m - timedelta and m - m.
func (m moment) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	switch y := y.(type) {
	case delta:
		if op == syntax.PLUS {
			return momentValue(m.plus(y))
		}
		if op == syntax.MINUS && side == starlark.Left {
			return momentValue(m.plus(y.negative()))
		}
	case moment:
		if op != syntax.MINUS || side != starlark.Left {
			return nil, nil
		}
		if (m.clock.zone == nil) != (y.clock.zone == nil) {
			return nil, stdlib.Errorf(stdlib.TypeError, "can't subtract offset-naive and offset-aware datetimes")
		}
		if sameZone(m.clock.zone, y.clock.zone) {
			return ofSmall(m.local() - y.local()), nil
		}
		return ofSmall(m.instant() - y.instant()), nil
	}
	return nil, nil
}

// negative is -d; a delta out of range stays out of range.
func (d delta) negative() delta {
	out := delta{days: -d.days}
	if d.seconds != 0 || d.micros != 0 {
		rest := ofSmall(-int64(d.seconds)*second - int64(d.micros))
		out.days, out.seconds, out.micros = out.days+rest.days, rest.seconds, rest.micros
	}
	return out
}

var structTime = collections.NewTupleType("time.struct_time", []string{"tm_year", "tm_mon", "tm_mday", "tm_hour", "tm_min", "tm_sec", "tm_wday", "tm_yday", "tm_isdst"})

// tuple is the time as a struct_time.
func (m moment) tuple(dst int) starlark.Value {
	fields := []int{m.year, m.month, m.day, m.hour, m.minute, m.second, weekday(m.ordinal()), dayOfYear(m.year, m.month, m.day), dst}
	values := make([]starlark.Value, len(fields))
	for i, n := range fields {
		values[i] = starlark.MakeInt(n)
	}
	return structTime.Make(values...)
}

func (m moment) AttrNames() []string {
	return []string{"astimezone", "ctime", "date", "day", "dst", "fold", "hour", "isocalendar", "isoformat", "isoweekday", "microsecond", "minute", "month", "replace", "second", "strftime", "time", "timestamp", "timetuple", "timetz", "toordinal", "tzinfo", "tzname", "utcoffset", "utctimetuple", "weekday", "year"}
}

func (m moment) Attr(name string) (starlark.Value, error) {
	if v := m.clock.field(name); v != nil {
		return v, nil
	}
	if method := stdlib.Method(m, name, momentMethods); method != nil {
		return method, nil
	}
	switch name {
	case "year", "month", "day":
		return m.date.Attr(name)
	}
	return nil, nil
}

// field returns a field of the time, nil for an unknown name.
func (t clock) field(name string) starlark.Value {
	switch name {
	case "hour":
		return starlark.MakeInt(t.hour)
	case "minute":
		return starlark.MakeInt(t.minute)
	case "second":
		return starlark.MakeInt(t.second)
	case "microsecond":
		return starlark.MakeInt(t.micro)
	case "fold":
		return starlark.MakeInt(t.fold)
	case "tzinfo":
		if t.zone == nil {
			return starlark.None
		}
		return t.zone
	}
	return nil
}

// momentMethod is a method without arguments.
func momentMethod(f func(m moment) (starlark.Value, error)) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		if err := c.Unpack(); err != nil {
			return nil, err
		}
		return f(c.Receiver.(moment))
	}
}

// zoneAnswer is a method of the zone for the time itself.
func zoneAnswer(f func(offset delta, name string, dst delta) starlark.Value) stdlib.Func {
	return momentMethod(func(m moment) (starlark.Value, error) {
		if m.clock.zone == nil {
			return starlark.None, nil
		}
		return f(m.clock.zone.at(m.localSeconds(), m.fold)), nil
	})
}

var momentMethods = withShared(map[string]stdlib.Func{
	"date": momentMethod(func(m moment) (starlark.Value, error) { return m.date, nil }),
	"time": momentMethod(func(m moment) (starlark.Value, error) {
		t := m.clock
		t.zone = nil
		return t, nil
	}),
	"timetz":    momentMethod(func(m moment) (starlark.Value, error) { return m.clock, nil }),
	"ctime":     momentMethod(func(m moment) (starlark.Value, error) { return starlark.String(m.ctime()), nil }),
	"timestamp": momentMethod(func(m moment) (starlark.Value, error) { return starlark.Float(ofSmall(m.instant()).seconds64()), nil }),
	"utcoffset": zoneAnswer(func(offset delta, _ string, _ delta) starlark.Value { return offset }),
	"tzname":    zoneAnswer(func(_ delta, name string, _ delta) starlark.Value { return starlark.String(name) }),
	"dst": func(c *stdlib.Call) (starlark.Value, error) {
		if _, fixed := c.Receiver.(moment).clock.zone.(fixedZone); fixed {
			return starlark.None, nil
		}
		return zoneAnswer(func(_ delta, _ string, dst delta) starlark.Value { return dst })(c)
	},
	"timetuple": momentMethod(func(m moment) (starlark.Value, error) {
		dst := -1
		if _, ok := m.clock.zone.(namedZone); ok {
			dst = 0
			if _, _, saved := m.clock.zone.at(m.localSeconds(), m.fold); saved != (delta{}) {
				dst = 1
			}
		}
		return m.tuple(dst), nil
	}),
	"utctimetuple": momentMethod(func(m moment) (starlark.Value, error) {
		at, err := momentOf(m.instant())
		if err != nil {
			return nil, stdlib.Errorf(stdlib.OverflowError, "date value out of range")
		}
		return at.tuple(0), nil
	}),
	"astimezone": func(c *stdlib.Call) (starlark.Value, error) {
		var tz starlark.Value
		if err := c.Unpack("tz?", &tz); err != nil {
			return nil, err
		}
		z, err := unpackZone(tz)
		if err != nil {
			return nil, err
		}
		if z == nil {
			z = utc
		}
		return momentValue(c.Receiver.(moment).in(z))
	},
	"isoformat": func(c *stdlib.Call) (starlark.Value, error) {
		sep, spec := "T", "auto"
		if err := c.Unpack("sep?", &sep, "timespec?", &spec); err != nil {
			return nil, err
		}
		if len([]rune(sep)) != 1 {
			return nil, c.Errorf(stdlib.TypeError, "argument 1 must be a unicode character, not str")
		}
		s, err := c.Receiver.(moment).iso(sep, spec)
		return starlark.String(s), err
	},
	"strftime": func(c *stdlib.Call) (starlark.Value, error) {
		var format string
		if err := c.Unpack("format", &format); err != nil {
			return nil, err
		}
		s, err := c.Receiver.(moment).strftime(format)
		return starlark.String(s), err
	},
	"replace": func(c *stdlib.Call) (starlark.Value, error) {
		m := c.Receiver.(moment)
		tz := m.clock.field("tzinfo")
		err := c.Unpack("year?", &m.year, "month?", &m.month, "day?", &m.day, "hour?", &m.hour, "minute?", &m.minute,
			"second?", &m.second, "microsecond?", &m.micro, "tzinfo?", &tz, "*", nil, "fold?", &m.fold)
		if err != nil {
			return nil, err
		}
		return checkedMoment(m, tz)
	},
})

// checkedMoment returns a datetime if the fields are valid.
func checkedMoment(m moment, tz starlark.Value) (starlark.Value, error) {
	var err error
	if m.clock.zone, err = unpackZone(tz); err == nil {
		err = checkDate(m.year, m.month, m.day)
	}
	if err == nil {
		err = checkTime(m.hour, m.minute, m.second, m.micro, m.fold)
	}
	return momentValue(m, err)
}

func momentClass() *stdlib.Class {
	c := class("datetime", func(c *stdlib.Call) (starlark.Value, error) {
		var m moment
		var tz starlark.Value
		err := c.Unpack("year", &m.year, "month", &m.month, "day", &m.day, "hour?", &m.hour, "minute?", &m.minute,
			"second?", &m.second, "microsecond?", &m.micro, "tzinfo?", &tz, "*", nil, "fold?", &m.fold)
		if err != nil {
			return nil, err
		}
		return checkedMoment(m, tz)
	}, func(v starlark.Value) bool { _, ok := v.(moment); return ok }, map[string]stdlib.Func{
		"now": nowIn, "today": nowIn, "utcnow": nowIn,
		"fromtimestamp": fromTimestamp, "utcfromtimestamp": fromTimestamp,
		"strptime": func(c *stdlib.Call) (starlark.Value, error) {
			var s, format string
			if err := c.Unpack("date_string", &s, "format", &format, "/", nil); err != nil {
				return nil, err
			}
			p, err := parseTime(c, s, format)
			return momentValue(p.moment, err)
		},
		"combine": combine,
		"fromordinal": func(c *stdlib.Call) (starlark.Value, error) {
			var n int
			if err := c.Unpack("ordinal", &n, "/", nil); err != nil {
				return nil, err
			}
			d, err := ordinalDate(n)
			return momentValue(d.moment(), err)
		},
		"fromisoformat": func(c *stdlib.Call) (starlark.Value, error) {
			s, err := text(c, "date_string")
			if err != nil {
				return nil, err
			}
			return momentValue(parseISO(c, s))
		},
		"fromisocalendar": func(c *stdlib.Call) (starlark.Value, error) {
			d, err := fromISOCalendar(c)
			return momentValue(d.moment(), err)
		},
	})
	c.Attrs["min"], c.Attrs["resolution"] = date{1, 1, 1}.moment(), delta{micros: 1}
	c.Attrs["max"] = moment{date{9999, 12, 31}, clock{hour: 23, minute: 59, second: 59, micro: 999999}}
	return c
}

// nowIn is now, utcnow and today.
func nowIn(c *stdlib.Call) (starlark.Value, error) {
	var tz starlark.Value
	pairs := []any{"tz?", &tz}
	if c.Name != "now" {
		pairs = nil
	}
	if err := c.Unpack(pairs...); err != nil {
		return nil, err
	}
	z, err := unpackZone(tz)
	if err != nil {
		return nil, err
	}
	m, err := now(c)
	if err == nil && z != nil {
		m, err = m.in(z)
	}
	return momentValue(m, err)
}

func fromTimestamp(c *stdlib.Call) (starlark.Value, error) {
	var t, tz starlark.Value
	pairs := []any{"timestamp", &t}
	if c.Name == "fromtimestamp" {
		pairs = append(pairs, "tz?", &tz)
	}
	if err := c.Unpack(pairs...); err != nil {
		return nil, err
	}
	z, err := unpackZone(tz)
	if err != nil {
		return nil, err
	}
	micros, err := timestampMicros(t)
	if err != nil {
		return nil, err
	}
	m, err := momentOf(micros)
	if err == nil && z != nil {
		m, err = m.in(z)
	}
	return momentValue(m, err)
}

func combine(c *stdlib.Call) (starlark.Value, error) {
	var d, t, tz starlark.Value
	if err := c.Unpack("date", &d, "time", &t, "tzinfo?", &tz); err != nil {
		return nil, err
	}
	on, ok := d.(dated)
	at, ok2 := t.(clock)
	if !ok || !ok2 {
		return nil, c.Errorf(stdlib.TypeError, "takes a date and a time, not %s and %s", stdlib.TypeName(d), stdlib.TypeName(t))
	}
	if tz != nil {
		var err error
		if at.zone, err = unpackZone(tz); err != nil {
			return nil, err
		}
	}
	return moment{on.theDate(), at}, nil
}
