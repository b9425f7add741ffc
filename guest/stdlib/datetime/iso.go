package datetime

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

func stringValue(s string) starlark.Value { return starlark.String(s) }

// isoReader reads digits of an ISO text.
type isoReader struct {
	s  string
	ok bool
}

// number reads a number of digits.
func (r *isoReader) number(digits int) int {
	n := 0
	for range digits {
		if r.s == "" || r.s[0] < '0' || r.s[0] > '9' {
			r.ok = false
			return 0
		}
		n = n*10 + int(r.s[0]-'0')
		r.s = r.s[1:]
	}
	return n
}

func (r *isoReader) accept(c byte) bool {
	if r.s != "" && r.s[0] == c {
		r.s = r.s[1:]
		return true
	}
	return false
}

func invalidISO(c *stdlib.Call, s string) error {
	return badValue("Invalid isoformat string: %s", c.Env().Repr(stringValue(s)))
}

// isoLength returns the length of the date at the start of a text.
func isoLength(s string) int {
	if len(s) < 8 {
		return len(s)
	}
	if len(s) == 7 {
		return 7
	}
	if s[4] == '-' {
		if s[5] == 'W' {
			if len(s) > 8 && s[8] == '-' {
				return 10
			}
			return 8
		}
		return 10
	}
	if s[4] == 'W' {
		digits := 0
		for digits+5 < len(s) && '0' <= s[digits+5] && s[digits+5] <= '9' {
			digits++
		}
		if digits == 2 || digits > 3 && digits%2 == 0 {
			return 7
		}
		return 8
	}
	return 8
}

// parseISODate reads YYYY-MM-DD, YYYYMMDD, YYYY-Www-D and the like.
func parseISODate(c *stdlib.Call, s string) (date, error) {
	r := &isoReader{s, true}
	year := r.number(4)
	sep := r.accept('-')
	if r.accept('W') {
		week, wd := r.number(2), 1
		if r.s != "" {
			if sep && !r.accept('-') {
				r.ok = false
			}
			wd = r.number(1)
		}
		if !r.ok || r.s != "" {
			return date{}, invalidISO(c, s)
		}
		return isoDate(year, week, wd)
	}
	month := r.number(2)
	if sep && !r.accept('-') {
		r.ok = false
	}
	d := date{year, month, r.number(2)}
	if !r.ok || r.s != "" {
		return date{}, invalidISO(c, s)
	}
	return d, checkDate(d.year, d.month, d.day)
}

// isoFields reads HH, HH:MM, HH:MM:SS, HH:MM:SS.ffffff, with or without colons.
func isoFields(s string) (fields [4]int, ok bool) {
	r := &isoReader{s, true}
	colon := false
	for i := range 3 {
		fields[i] = r.number(2)
		if !r.ok {
			return fields, false
		}
		if r.s == "" {
			return fields, true
		}
		if i == 0 {
			colon = r.s[0] == ':'
		}
		if i == 2 {
			break
		}
		if colon && !r.accept(':') {
			return fields, false
		}
	}
	if !r.accept('.') && !r.accept(',') {
		return fields, false
	}
	digits := len(r.s)
	if digits == 0 {
		return fields, false
	}
	fields[3] = r.number(min(digits, 6))
	for range 6 - digits {
		fields[3] *= 10
	}
	for r.s != "" && r.ok { // more than microseconds
		r.number(1)
	}
	return fields, r.ok
}

// parseISOTime reads a time with or without an offset.
func parseISOTime(c *stdlib.Call, s string) (clock, error) {
	bad := invalidISO(c, s)
	text := strings.TrimPrefix(s, "T")
	at := strings.IndexAny(text, "+-Z")
	offset := ""
	if at >= 0 {
		text, offset = text[:at], text[at:]
	}
	f, ok := isoFields(text)
	if !ok {
		return clock{}, bad
	}
	t := clock{hour: f[0], minute: f[1], second: f[2], micro: f[3]}
	switch {
	case offset == "":
	case offset == "Z":
		t.zone = utc
	default:
		o, ok := isoFields(offset[1:])
		if !ok || offset[0] == 'Z' {
			return clock{}, bad
		}
		total := int64(o[0]*3600+o[1]*60+o[2])*second + int64(o[3])
		if total >= day {
			return clock{}, badValue("offset must be a timedelta strictly between -timedelta(hours=24) and timedelta(hours=24).")
		}
		if offset[0] == '-' {
			total = -total
		}
		t.zone = fixedZone{offset: ofSmall(total)}
	}
	return t, checkTime(t.hour, t.minute, t.second, t.micro, 0)
}

// parseISO reads a date and time. Any character can stand between them.
func parseISO(c *stdlib.Call, s string) (moment, error) {
	if len(s) < 7 {
		return moment{}, invalidISO(c, s)
	}
	n := min(isoLength(s), len(s))
	d, err := parseISODate(c, s[:n])
	if err != nil {
		if d == (date{}) {
			err = invalidISO(c, s)
		}
		return moment{}, err
	}
	if n == len(s) {
		return d.moment(), nil
	}
	rest := []rune(s[n:])[1:]
	if len(rest) == 0 || rest[0] == 'T' {
		return moment{}, invalidISO(c, s)
	}
	t, err := parseISOTime(c, string(rest))
	if err != nil {
		return moment{}, err
	}
	return moment{d, t}, nil
}
