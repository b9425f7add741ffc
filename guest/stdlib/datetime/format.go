package datetime

import (
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/re"
)

var (
	dayNames   = [7]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	monthNames = [12]string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
)

// maxFormatted is a limit on the length of the result of strftime.
const maxFormatted = 1 << 20

// strftime formats as Python does on Linux, with the flags -, _, 0 and ^ of the C library. All
// other text is unchanged.
func (m moment) strftime(format string) (string, error) {
	if len(format) > maxFormatted/32 {
		return "", stdlib.Errorf(stdlib.ValueError, "the format is longer than %d characters", maxFormatted/32)
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		flag := byte(0)
		if strings.IndexByte("-_0^#", format[i]) >= 0 && i+1 < len(format) {
			flag = format[i]
			i++
		}
		text, ok := m.directive(format[i], flag)
		if format[i] == ':' && i+1 < len(format) && format[i+1] == 'z' {
			i++
			text, ok = m.offsetText(":"), true
		}
		if !ok {
			text = format[start : i+1]
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// padded returns a number with leading zeros, as a flag says.
func padded(n, width int, pad, flag byte) string {
	s := strconv.Itoa(n)
	switch flag {
	case '-':
		return s
	case '_':
		pad = ' '
	case '0':
		pad = '0'
	}
	return strings.Repeat(string(pad), max(0, width-len(s))) + s
}

func named(s string, flag byte) string {
	if flag == '^' || flag == '#' {
		return strings.ToUpper(s)
	}
	return s
}

func (m moment) offsetText(sep string) string {
	offset, ok := m.offset()
	if !ok {
		return ""
	}
	return offsetText(ofSmall(offset), sep)
}

func (m moment) hour12() int { return (m.hour+11)%12 + 1 }

// directive returns the text of a directive; ok is false for an unknown directive.
func (m moment) directive(d, flag byte) (text string, ok bool) {
	if n, width, pad, ok := m.numeric(d); ok {
		return padded(n, width, pad, flag), true
	}
	n := m.ordinal()
	switch d {
	case 'a':
		return named(dayNames[weekday(n)][:3], flag), true
	case 'A':
		return named(dayNames[weekday(n)], flag), true
	case 'b', 'h':
		return named(monthNames[m.month-1][:3], flag), true
	case 'B':
		return named(monthNames[m.month-1], flag), true
	case 'p', 'P':
		half := "AM"
		if m.hour >= 12 {
			half = "PM"
		}
		if d == 'P' || flag == '#' {
			half = strings.ToLower(half)
		}
		return half, true
	case 'f':
		return fmt.Sprintf("%06d", m.micro), true
	case 'z':
		return m.offsetText(""), true
	case 'Z':
		if m.clock.zone == nil {
			return "", true
		}
		_, name, _ := m.clock.zone.at(m.localSeconds(), m.fold)
		return named(name, flag), true
	case 's':
		return strconv.FormatInt(m.localSeconds(), 10), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case '%':
		return "%", true
	}
	if format, ok := composed[d]; ok {
		text, err := m.strftime(format)
		return text, err == nil
	}
	return "", false
}

// composed are directives that stand for several other directives.
var composed = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'x': "%m/%d/%y", 'X': "%H:%M:%S", 'D': "%m/%d/%y", 'F': "%Y-%m-%d",
	'T': "%H:%M:%S", 'R': "%H:%M", 'r': "%I:%M:%S %p",
}

// numeric returns the number of a directive and its padding.
func (m moment) numeric(d byte) (n, width int, pad byte, ok bool) {
	switch d {
	case 'd':
		return m.day, 2, '0', true
	case 'e':
		return m.day, 2, ' ', true
	case 'm':
		return m.month, 2, '0', true
	case 'y':
		return m.year % 100, 2, '0', true
	case 'Y':
		return m.year, 1, '0', true
	case 'C':
		return m.year / 100, 2, '0', true
	case 'H':
		return m.hour, 2, '0', true
	case 'k':
		return m.hour, 2, ' ', true
	case 'I':
		return m.hour12(), 2, '0', true
	case 'l':
		return m.hour12(), 2, ' ', true
	case 'M':
		return m.minute, 2, '0', true
	case 'S':
		return m.second, 2, '0', true
	case 'j':
		return dayOfYear(m.year, m.month, m.day), 3, '0', true
	}
	wd := weekday(m.ordinal())
	yearDay := dayOfYear(m.year, m.month, m.day)
	switch d {
	case 'w':
		return (wd + 1) % 7, 1, '0', true
	case 'u':
		return wd + 1, 1, '0', true
	case 'U':
		return (yearDay + 6 - (wd+1)%7) / 7, 2, '0', true
	case 'W':
		return (yearDay + 6 - wd) / 7, 2, '0', true
	}
	year, week, _ := isoCalendar(m.year, m.ordinal())
	switch d {
	case 'G':
		return year, 1, '0', true
	case 'g':
		return year % 100, 2, '0', true
	case 'V':
		return week, 2, '0', true
	}
	return 0, 0, 0, false
}

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
