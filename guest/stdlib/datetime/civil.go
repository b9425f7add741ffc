package datetime

import "github.com/mcp-metatool/mcp-metatool/guest/stdlib"

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
