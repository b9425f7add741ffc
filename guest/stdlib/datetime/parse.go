package datetime

import (
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/re"
)

// expressions are the patterns of the directives of strptime, as in Python.
var expressions = map[byte]string{
	'd': `(?P<d>3[0-1]|[1-2]\d|0[1-9]|[1-9]| [1-9])`, 'f': `(?P<f>[0-9]{1,6})`, 'H': `(?P<H>2[0-3]|[0-1]\d|\d)`,
	'I': `(?P<I>1[0-2]|0[1-9]|[1-9]| [1-9])`, 'G': `(?P<G>\d\d\d\d)`, 'j': `(?P<j>36[0-6]|3[0-5]\d|[1-2]\d\d|0[1-9]\d|00[1-9]|[1-9]\d|0[1-9]|[1-9])`,
	'm': `(?P<m>1[0-2]|0[1-9]|[1-9])`, 'M': `(?P<M>[0-5]\d|\d)`, 'S': `(?P<S>6[0-1]|[0-5]\d|\d)`, 'U': `(?P<U>5[0-3]|[0-4]\d|\d)`,
	'w': `(?P<w>[0-6])`, 'u': `(?P<u>[1-7])`, 'V': `(?P<V>5[0-3]|0[1-9]|[1-4]\d|\d)`, 'W': `(?P<W>5[0-3]|[0-4]\d|\d)`, 'y': `(?P<y>\d\d)`, 'Y': `(?P<Y>\d\d\d\d)`,
	'z': `(?P<z>[+-]\d\d:?[0-5]\d(:?[0-5]\d(\.\d{1,6})?)?|(?-i:Z))`,
	'A': `(?P<A>` + strings.Join(dayNames[:], "|") + `)`, 'a': `(?P<a>mon|tue|wed|thu|fri|sat|sun)`,
	'B': `(?P<B>` + strings.Join(monthNames[:], "|") + `)`, 'b': `(?P<b>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)`,
	'p': `(?P<p>am|pm)`, 'Z': `(?P<Z>utc|gmt)`, '%': "%",
}

// maxParsed is a limit on the length of a format of strptime.
const maxParsed = 4096

func badValue(format string, args ...any) error {
	return stdlib.Errorf(stdlib.ValueError, format, args...)
}

// pattern returns the pattern of a format.
func pattern(c *stdlib.Call, format string) (*re.Pattern, error) {
	if len(format) > maxParsed {
		return nil, badValue("the format is longer than %d characters", maxParsed)
	}
	for d, with := range composedParsed {
		format = strings.ReplaceAll(format, d, with)
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		switch ch := format[i]; {
		case ch == '%':
			i++
			if i == len(format) {
				return nil, badValue("stray %% in format %s", c.Env().Repr(stringValue(format)))
			}
			expression, ok := expressions[format[i]]
			if !ok {
				return nil, badValue("'%c' is a bad directive in format %s", format[i], c.Env().Repr(stringValue(format)))
			}
			b.WriteString(expression)
		case strings.IndexByte(" \t\n\r\v\f", ch) >= 0:
			for i+1 < len(format) && strings.IndexByte(" \t\n\r\v\f", format[i+1]) >= 0 {
				i++
			}
			b.WriteString(`\s+`)
		default:
			b.WriteString(re.Escape(string(ch)))
		}
	}
	p, err := re.Compile(b.String(), re.IgnoreCase)
	if err != nil {
		return nil, badValue("%v (a directive can be used only once)", err)
	}
	return p, nil
}

var composedParsed = map[string]string{"%c": "%a %b %d %H:%M:%S %Y", "%x": "%m/%d/%y", "%X": "%H:%M:%S"}

// parsed is a time read by strptime.
type parsed struct{ moment }

// parseTime is strptime.
func parseTime(c *stdlib.Call, s, format string) (parsed, error) {
	p, err := pattern(c, format)
	if err != nil {
		return parsed{}, err
	}
	found, err := re.NewSearcher(p, s, 0).MatchAt(0)
	if err != nil {
		return parsed{}, err
	}
	if found == nil {
		return parsed{}, badValue("time data %s does not match format %s", c.Env().Repr(stringValue(s)), c.Env().Repr(stringValue(format)))
	}
	if found.Spans[1] != len(s) {
		return parsed{}, badValue("unconverted data remains: %s", s[found.Spans[1]:])
	}
	f := fields{text: map[byte]string{}}
	for name, i := range p.Index {
		if found.Spans[2*i] >= 0 {
			f.text[name[0]] = s[found.Spans[2*i]:found.Spans[2*i+1]]
		}
	}
	return f.time()
}

// fields are the texts of directives.
type fields struct{ text map[byte]string }

// number returns the number of a directive; -1 if absent.
func (f fields) number(d byte) int {
	n, err := strconv.Atoi(strings.TrimSpace(f.text[d]))
	if err != nil {
		return -1
	}
	return n
}

// word returns the index of a directive's word in a list of names; -1 if absent.
func (f fields) word(d byte, names []string, length int) int {
	if s := f.text[d]; s != "" {
		for i, name := range names {
			if length > 0 {
				name = name[:length]
			}
			if strings.EqualFold(s, name) {
				return i
			}
		}
	}
	return -1
}

func (f fields) time() (parsed, error) {
	m := moment{date{1900, 1, 1}, clock{}}
	m.hour, m.minute, m.second = max(f.number('H'), 0), max(f.number('M'), 0), max(f.number('S'), 0)
	if hour := f.number('I'); hour >= 0 {
		m.hour = hour % 12
		if strings.EqualFold(f.text['p'], "pm") {
			m.hour += 12
		}
	}
	if s := f.text['f']; s != "" {
		m.micro, _ = strconv.Atoi(s + strings.Repeat("0", 6-len(s)))
	}
	if err := f.zone(&m); err != nil {
		return parsed{}, err
	}
	if err := f.date(&m); err != nil {
		return parsed{}, err
	}
	if m.second > 59 {
		return parsed{}, badValue("second must be in 0..59")
	}
	return parsed{m}, nil
}

// zone reads %z. As in Python, %Z alone gives no zone.
func (f fields) zone(m *moment) error {
	s := f.text['z']
	if s == "" {
		return nil
	}
	z, err := parseOffset(s)
	m.clock.zone = z
	return err
}

// parseOffset reads Z, +0100, +01:00 and +01:00:00.123456.
func parseOffset(s string) (fixedZone, error) {
	if s == "Z" || s == "z" {
		return utc, nil
	}
	digits, fraction, _ := strings.Cut(strings.ReplaceAll(s[1:], ":", ""), ".")
	if strings.Contains(s, ":") && strings.Count(s, ":") != len(digits)/2-1 {
		return utc, badValue("Inconsistent use of : in %s", s)
	}
	total := int64(0)
	for i, unit := range []int64{3600, 60, 1} {
		if 2*i < len(digits) {
			n, err := strconv.Atoi(digits[2*i : 2*i+2])
			if err != nil {
				return utc, badValue("bad offset %s", s)
			}
			total += int64(n) * unit * second
		}
	}
	if fraction != "" {
		n, _ := strconv.Atoi((fraction + "000000")[:6])
		total += int64(n)
	}
	if s[0] == '-' {
		total = -total
	}
	if total <= -day || total >= day {
		return utc, badValue("offset must be a timedelta strictly between -timedelta(hours=24) and timedelta(hours=24).")
	}
	return fixedZone{offset: ofSmall(total)}, nil
}

func (f fields) date(m *moment) error {
	year := f.number('Y')
	if y := f.number('y'); y >= 0 {
		year = 1900 + y
		if y <= 68 {
			year = 2000 + y
		}
	}
	month := f.number('m')
	if month < 0 {
		month = f.word('b', monthNames[:], 3) + 1
	}
	if long := f.word('B', monthNames[:], 0); long >= 0 {
		month = long + 1
	}
	wd := f.weekday()
	if err := f.checkWeek(year, wd); err != nil {
		return err
	}
	leap := year < 0 && month == 2 && f.number('d') == 29
	m.year = year
	if year < 0 {
		m.year = 1900
	}
	if leap {
		m.year = 1904 // Python's choice, with a February 29th
	}
	switch n, week := f.number('j'), f.week(); {
	case n > 0:
		d, err := dateOf(ordinal(m.year, 1, 1) + n - 1)
		m.date = d
		if err != nil {
			return err
		}
	case week >= 0 && wd >= 0 && year >= 0:
		d, err := dateOf(f.weekStart(year, week, wd))
		if err != nil {
			return err
		}
		m.date = d
	case f.text['V'] != "":
		d, err := isoDate(f.number('G'), f.number('V'), wd+1)
		if err != nil {
			return err
		}
		m.date = d
	default:
		m.month, m.day = max(month, 1), max(f.number('d'), 1)
		if err := checkDate(m.year, m.month, m.day); err != nil {
			return err
		}
	}
	if leap {
		return badValue("day is out of range for month")
	}
	return nil
}

// weekday is 0 for Monday, -1 without a weekday.
func (f fields) weekday() int {
	if n := f.number('u'); n > 0 {
		return n - 1
	}
	if n := f.number('w'); n >= 0 {
		return (n + 6) % 7
	}
	if n := f.word('a', dayNames[:], 3); n >= 0 {
		return n
	}
	return f.word('A', dayNames[:], 0)
}

// week is the week of %U or %W, -1 without a week.
func (f fields) week() int { return max(f.number('U'), f.number('W')) }

// weekStart returns the ordinal of a day in a week of %U or %W.
func (f fields) weekStart(year, week, wd int) int {
	first := ordinal(year, 1, 1)
	firstDay := weekday(first)
	if f.text['U'] != "" { // weeks begin on Sunday
		firstDay, wd = (firstDay+1)%7, (wd+1)%7
	}
	before := (7 - firstDay) % 7
	if week == 0 {
		return first + wd - firstDay
	}
	return first + before + 7*(week-1) + wd
}

// checkWeek refuses a week without a day.
func (f fields) checkWeek(year, wd int) error {
	iso, isoWeek := f.text['G'] != "", f.text['V'] != ""
	switch {
	case iso && f.text['j'] != "":
		return badValue("Day of the year directive '%%j' is not compatible with ISO year directive '%%G'. Use '%%Y' instead.")
	case iso && (!isoWeek || wd < 0):
		return badValue("ISO year directive '%%G' must be used with the ISO week directive '%%V' and a weekday directive ('%%A', '%%a', '%%w', or '%%u').")
	case isoWeek && !iso && (year < 0 || wd < 0):
		return badValue("ISO week directive '%%V' must be used with the ISO year directive '%%G' and a weekday directive ('%%A', '%%a', '%%w', or '%%u').")
	case isoWeek && !iso:
		return badValue("ISO week directive '%%V' is incompatible with the year directive '%%Y'. Use the ISO year '%%G' instead.")
	}
	return nil
}
