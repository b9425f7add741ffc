package display

import "time"

// Time formats a time for people in the local time zone, with the offset, to the second or the
// millisecond. Records, JSON and texts for agents use UTC instead.
func Time(t time.Time, to time.Duration) string {
	layout := "2006-01-02 15:04:05 -07:00"
	if to < time.Second {
		layout = "2006-01-02 15:04:05.000 -07:00"
	}
	return t.Local().Format(layout)
}
