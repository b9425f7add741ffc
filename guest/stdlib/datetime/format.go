package datetime

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
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
