// Package datetime is Python's modules datetime, time and zoneinfo.
//
//	datetime.go  the module datetime
//	delta.go     timedelta
//	zone.go      timezone and ZoneInfo; zones.go: the data of all zones
//	date.go      date
//	moment.go    datetime; methods.go: its methods
//	clock.go     the class time
//	civil.go     the calendar
//	arguments.go arguments and comparisons that the classes have in common
//	format.go    strftime
//	parse.go     strptime; iso.go: fromisoformat
//	time.go      the module time
//
// The time now is that of the run: the same, however often a script asks. The local
// zone is UTC.
package datetime

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
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

// class returns a class. f makes its values, statics are what is called on the class.
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
