package datetime

import (
	_ "embed" // for zoneinfo.zip
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// zone is a tzinfo: a timezone or a ZoneInfo.
type zone interface {
	starlark.HasAttrs
	// at returns offset, name and daylight saving of a local time, given as seconds since 1970 as
	// if in UTC.
	at(local int64, fold int) (offset delta, name string, dst delta)
	// from returns the offset of an instant, and the fold of the local time.
	from(instant int64) (offset delta, fold int)
}

// fixedZone is a timezone.
type fixedZone struct {
	offset delta
	name   string
}

var utc = fixedZone{}

func (z fixedZone) at(int64, int) (delta, string, delta) { return z.offset, z.Str(), delta{} }
func (z fixedZone) from(int64) (delta, int)              { return z.offset, 0 }

func (z fixedZone) String() string { return z.Repr(stdlib.PlainRepr) }

// Repr is datetime.timezone(...).
func (z fixedZone) Repr(repr func(starlark.Value) string) string {
	switch {
	case z == utc:
		return "datetime.timezone.utc"
	case z.name != "":
		return fmt.Sprintf("datetime.timezone(%s, %s)", z.offset.Repr(nil), repr(starlark.String(z.name)))
	}
	return fmt.Sprintf("datetime.timezone(%s)", z.offset.Repr(nil))
}

// Str is the name, or UTC+01:00.
func (z fixedZone) Str() string {
	switch {
	case z.name != "":
		return z.name
	case z.offset == delta{}:
		return "UTC"
	}
	return "UTC" + offsetText(z.offset, ":")
}

// offsetText is +01:00.
func offsetText(d delta, sep string) string {
	sign, s, micros := "+", d.days*86400+d.seconds, d.micros
	if s < 0 {
		sign, s = "-", -s
		if micros > 0 {
			s, micros = s-1, second-micros
		}
	}
	text := fmt.Sprintf("%s%02d%s%02d", sign, s/3600, sep, s/60%60)
	if s%60 != 0 || micros != 0 {
		text += fmt.Sprintf("%s%02d", sep, s%60)
	}
	if micros != 0 {
		text += fmt.Sprintf(".%06d", micros)
	}
	return text
}

func (fixedZone) Type() string                               { return "timezone" }
func (fixedZone) Freeze()                                    {}
func (fixedZone) Truth() starlark.Bool                       { return true }
func (z fixedZone) Hash() (uint32, error)                    { return z.offset.Hash() }
func (fixedZone) AttrNames() []string                        { return zoneMethodNames }
func (z fixedZone) Attr(name string) (starlark.Value, error) { return zoneAttr(z, name) }

var zoneMethodNames = []string{"dst", "tzname", "utcoffset"}

// zoneAttr is a method of a zone, which takes a datetime or None.
func zoneAttr(z zone, name string) (starlark.Value, error) {
	switch name {
	case "utcoffset", "tzname", "dst":
	default:
		return nil, nil
	}
	return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
		var v starlark.Value
		if err := c.Unpack("dt", &v, "/", nil); err != nil {
			return nil, err
		}
		m, ok := v.(moment)
		_, fixed := z.(fixedZone)
		if !ok && (v != starlark.None || !fixed && v == starlark.None) {
			if v == starlark.None {
				return starlark.None, nil
			}
			return nil, stdlib.Errorf(stdlib.TypeError, "%s(dt) argument must be a datetime instance or None, not %s", name, stdlib.TypeName(v))
		}
		offset, text, dst := z.at(m.localSeconds(), m.fold)
		switch {
		case name == "utcoffset":
			return offset, nil
		case name == "tzname":
			return starlark.String(text), nil
		case fixed:
			return starlark.None, nil
		}
		return dst, nil
	}), nil
}

// limitOfOffset is the exclusive upper limit of an offset.
const limitOfOffset = 24 * 3600

func timezoneClass() *stdlib.Class {
	c := class("timezone", func(c *stdlib.Call) (starlark.Value, error) {
		var offset, name starlark.Value
		if err := c.Unpack("offset", &offset, "name?", &name); err != nil {
			return nil, err
		}
		d, ok := offset.(delta)
		if !ok {
			return nil, c.Errorf(stdlib.TypeError, "argument 1 must be datetime.timedelta, not %s", stdlib.TypeName(offset))
		}
		if s := d.days*86400 + d.seconds; s <= -limitOfOffset && (s < -limitOfOffset || d.micros == 0) || s >= limitOfOffset {
			return nil, stdlib.Errorf(stdlib.ValueError, "offset must be a timedelta strictly between -timedelta(hours=24) and timedelta(hours=24), not %s.", d.Repr(nil))
		}
		z := fixedZone{offset: d}
		if name != nil {
			if z.name, ok = starlark.AsString(name); !ok {
				return nil, c.Errorf(stdlib.TypeError, "argument 2 must be str, not %s", stdlib.TypeName(name))
			}
		}
		return z, nil
	}, func(v starlark.Value) bool { _, ok := v.(fixedZone); return ok }, nil)
	c.Attrs = starlark.StringDict{
		"utc": utc, "min": fixedZone{offset: delta{-1, 60, 0}}, "max": fixedZone{offset: delta{0, 86340, 0}},
	}
	return c
}

// tzinfoClass is for isinstance.
func tzinfoClass() *stdlib.Class {
	return class("tzinfo", func(c *stdlib.Call) (starlark.Value, error) {
		return nil, stdlib.Errorf(stdlib.TypeError, "tzinfo cannot be made: use timezone(timedelta(...)) or zoneinfo.ZoneInfo(name)")
	}, func(v starlark.Value) bool { _, ok := v.(zone); return ok }, nil)
}

// namedZone is a ZoneInfo.
type namedZone struct{ location *time.Location }

const notFoundClass = "ZoneInfoNotFoundError"

func zoneInfoClass() *stdlib.Class {
	c := class("ZoneInfo", func(c *stdlib.Call) (starlark.Value, error) {
		var name string
		if err := c.Unpack("key", &name); err != nil {
			return nil, err
		}
		return loadZone(name)
	}, func(v starlark.Value) bool { _, ok := v.(namedZone); return ok }, nil)
	c.Named = "zoneinfo.ZoneInfo"
	return c
}

func loadZone(name string) (starlark.Value, error) {
	missing := &stdlib.Error{Class: notFoundClass, Bases: []string{stdlib.KeyError, stdlib.LookupError}, Message: "No time zone found with key " + name}
	if strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
		return nil, badValue("ZoneInfo keys must be names such as Europe/Berlin, got: %s", name)
	}
	if name == "" || name == "Local" {
		return nil, missing
	}
	if zone := location(name); zone != nil {
		return namedZone{zone}, nil
	}
	return nil, missing
}

func (z namedZone) String() string { return z.Repr(nil) }

// Repr is zoneinfo.ZoneInfo(key='Europe/Berlin').
func (z namedZone) Repr(func(starlark.Value) string) string {
	return "zoneinfo.ZoneInfo(key='" + z.location.String() + "')"
}

// Str is the name.
func (z namedZone) Str() string { return z.location.String() }

func (namedZone) Type() string            { return "ZoneInfo" }
func (namedZone) Freeze()                 {}
func (namedZone) Truth() starlark.Bool    { return true }
func (z namedZone) Hash() (uint32, error) { return starlark.String(z.location.String()).Hash() }
func (namedZone) AttrNames() []string     { return append([]string{"key"}, zoneMethodNames...) }

func (z namedZone) Attr(name string) (starlark.Value, error) {
	if name == "key" {
		return starlark.String(z.location.String()), nil
	}
	return zoneAttr(z, name)
}

func (z namedZone) offsetAt(instant int64) int {
	_, offset := time.Unix(instant, 0).In(z.location).Zone()
	return offset
}

// instants returns the two possible instants of a local time: with the offsets before and after a
// near change. Otherwise both are the same.
func (z namedZone) instants(local int64) (first, second int64) {
	const day = 24 * 3600
	before, after := z.offsetAt(local-day), z.offsetAt(local+day)
	a, b := local-int64(before), local-int64(after)
	okA, okB := z.offsetAt(a) == before, z.offsetAt(b) == after
	switch {
	case okA && !okB:
		return a, a
	case okB && !okA:
		return b, b
	}
	return a, b // both, or in a gap neither
}

func (z namedZone) at(local int64, fold int) (delta, string, delta) {
	first, second := z.instants(local)
	instant := first
	if fold == 1 {
		instant = second
	}
	// In a gap the offset is the offset before, or with fold after the gap.
	offset := int64(local - instant)
	moment := time.Unix(instant, 0).In(z.location)
	if _, real := moment.Zone(); int64(real) != offset {
		if fold == 0 {
			moment = time.Unix(instant-3*3600, 0).In(z.location)
		} else {
			moment = time.Unix(instant+3*3600, 0).In(z.location)
		}
	}
	name, _ := moment.Zone()
	dst := delta{}
	if moment.IsDST() {
		dst = ofSmall(z.saving(moment, offset) * 1000000)
	}
	return ofSmall(offset * 1000000), name, dst
}

// saving returns the daylight saving time: the difference to the nearest standard time.
func (z namedZone) saving(moment time.Time, offset int64) int64 {
	for months := 1; months < 12; months++ {
		for _, near := range []time.Time{moment.AddDate(0, months, 0), moment.AddDate(0, -months, 0)} {
			if !near.IsDST() {
				_, standard := near.Zone()
				if saved := offset - int64(standard); saved > 0 {
					return saved
				}
			}
		}
	}
	return 3600
}

func (z namedZone) from(instant int64) (delta, int) {
	offset := z.offsetAt(instant)
	local := instant + int64(offset)
	first, second := z.instants(local)
	fold := 0
	if first != second && second == instant {
		fold = 1
	}
	return ofSmall(int64(offset) * 1000000), fold
}

// zones is lib/time/zoneinfo.zip of the Go distribution: the IANA time zone database,
// which is in the public domain. time.LoadLocation would look for files first, and with
// it the guest would need more of WASI than the host has. The parts of the archive are
// not compressed, so nothing is read but the directory and the zone that is asked for.
//
//go:embed zoneinfo.zip
var zones string

// The fixed parts of an archive's records, in bytes.
const (
	zipEnd       = 22
	zipDirectory = 46
	zipFile      = 30
)

// location returns the zone of the name, nil for an unknown name.
func location(name string) *time.Location {
	if name == "UTC" {
		return time.UTC
	}
	number := func(at, size int) int {
		if size == 2 {
			return int(binary.LittleEndian.Uint16([]byte(zones[at : at+2])))
		}
		return int(binary.LittleEndian.Uint32([]byte(zones[at : at+4])))
	}
	end := len(zones) - zipEnd
	at := number(end+16, 4)
	for range number(end+10, 2) {
		nameLength, extra, comment := number(at+28, 2), number(at+30, 2), number(at+32, 2)
		found := zones[at+zipDirectory : at+zipDirectory+nameLength]
		if found != name || strings.HasSuffix(name, "/") {
			at += zipDirectory + nameLength + extra + comment
			continue
		}
		size, file := number(at+24, 4), number(at+42, 4)
		file += zipFile + number(file+26, 2) + number(file+28, 2)
		zone, err := time.LoadLocationFromTZData(name, []byte(zones[file:file+size]))
		if err != nil {
			return nil
		}
		return zone
	}
	return nil
}
