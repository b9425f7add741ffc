package mcptest

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// event is a server-sent event (WHATWG HTML, server-sent events).
type event struct {
	name  string // "" is a message
	data  []byte
	id    string // the latest id, even if the event has none
	retry time.Duration
}

// readEvents calls f for each event until f returns false or the stream ends, which is not an
// error. Lines may end in CR LF or LF. Events without data set id and retry for the following
// events; f gets them too, with nil data.
func readEvents(r io.Reader, f func(event) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var e event
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil // an unfinished event is dropped
		}
		if err != nil {
			return err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) == 0 {
			if !f(e) {
				return nil
			}
			e = event{id: e.id, retry: e.retry}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			e.name = string(value)
		case "data":
			if e.data != nil {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
		case "id":
			e.id = string(value)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}
