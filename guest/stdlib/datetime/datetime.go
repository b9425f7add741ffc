// Package datetime is Python's modules datetime, time and zoneinfo. Begin with [Module], [Time] and
// moment. The current time is the time of the run: the same in all calls of a script. The local
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
