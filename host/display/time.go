package display

import "time"

// Time is a point in time for people, to the second or the millisecond: in the time
// zone of this machine, with its offset. Records, JSON and what agents see have UTC.
func Time(t time.Time, to time.Duration) string {
	layout := "2006-01-02 15:04:05 -07:00"
	if to < time.Second {
		layout = "2006-01-02 15:04:05.000 -07:00"
	}
	return t.Local().Format(layout)
}
