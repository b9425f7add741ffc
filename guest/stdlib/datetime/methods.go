package datetime

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

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
