package display

import "time"

// Time formats a time for people, to the second or the millisecond, in the machine's
// time zone and with its offset. Records, JSON and what agents see use UTC.
func Time(t time.Time, to time.Duration) string {
	layout := "2006-01-02 15:04:05 -07:00"
	if to < time.Second {
		layout = "2006-01-02 15:04:05.000 -07:00"
	}
	return t.Local().Format(layout)
}
