package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// readEvents reads all of r and formats each event as "name|data|last id".
func readEvents(r io.Reader, max int) (all []string, retry time.Duration, err error) {
	e := NewEventReader(r, max)
	defer e.Release()
	for {
		ev, err := e.Next()
		var large *TooLargeError
		switch {
		case err == nil:
			all = append(all, fmt.Sprintf("%s|%s|%s", ev.Name, ev.Data, e.LastID))
		case errors.As(err, &large):
			all = append(all, "too large")
		default:
			return append(all, "end "+string(e.LastID)), e.Retry, err
		}
	}
}

func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"line feeds", "data: a\n\ndata: b\n\n", []string{"|a|", "|b|", "end "}},
		{"carriage returns", "data: a\r\rdata: b\r\r", []string{"|a|", "|b|", "end "}},
		{"both", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a|", "|b|", "end "}},
		{"mixed endings", "data: a\rdata: b\ndata: c\r\n\r\n", []string{"|a\nb\nc|", "end "}},
		{"byte order mark", "\xEF\xBB\xBFdata: a\n\n", []string{"|a|", "end "}},
		{"two byte order marks", "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n", []string{"end "}},
		{"half a byte order mark", "\xEF\xBBdata: a\n\ndata: b\n\n", []string{"|b|", "end "}},
		{"no space, one, two", "data:a\ndata: b\ndata:  c\n\n", []string{"|a\nb\n c|", "end "}},
		{"comments", ": hello\n\n:\n: x\ndata: a\n: y\n\n", []string{"|a|", "end "}},
		{"name", "event: endpoint\ndata: /x\n\ndata: y\n\n", []string{"endpoint|/x|", "|y|", "end "}},
		{"ids stay", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []string{"|a|1", "|b|1", "|c|", "end "}},
		{"id without data", "id: p\n\n", []string{"end p"}},
		{"id with empty data", "id: p\ndata:\n\n", []string{"||p", "end p"}},
		{"id with a NUL", "id: 1\n\nid: 2\x00\ndata: a\n\n", []string{"|a|1", "end 1"}},
		{"unknown fields and no colon", "foo: bar\nnothing\ndata\ndata\n\n", []string{"|\n|", "end "}},
		{"half an event", "id: 1\ndata: a\n\nid: 2\ndata: b\n", []string{"|a|1", "end 1"}},
		{"half a line", "data: a\n\ndata: b", []string{"|a|", "end "}},
		{"too large", "id: 7\ndata: 0123456789abcdefghijk\n\ndata: ok\n\n", []string{"too large", "|ok|7", "end 7"}},
		{"too large together", "data: 0123456789\ndata: abcdefghijk\ndata: more\n\ndata: ok\n\n", []string{"too large", "|ok|", "end "}},
		{"long comment", ": 0123456789abcdefghijk0123456789abcdefghijk\ndata: ok\n\n", []string{"|ok|", "end "}},
		{"exactly the limit", "data: 0123456789abcdefghij\n\n", []string{"|0123456789abcdefghij|", "end "}},
		{"nothing", "", []string{"end "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i, r := range []io.Reader{
				strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, _, err := readEvents(r, 20)
				if !slices.Equal(got, tt.want) || err != io.EOF {
					t.Errorf("reader %d: got %q, %v, want %q", i, got, err, tt.want)
				}
			}
		})
	}
}

// TestEventsAreNotDelayed checks that an event is returned as soon as its blank line has
// been read, whatever the line ending.
func TestEventsAreNotDelayed(t *testing.T) {
	for _, ending := range []string{"\n", "\r", "\r\n"} {
		r, w := io.Pipe()
		e := NewEventReader(r, 0)
		go w.Write([]byte("data: a" + ending + ending))
		if ev, err := e.Next(); err != nil || string(ev.Data) != "a" {
			t.Errorf("after %q: got %q, %v", ending, ev.Data, err)
		}
		r.Close()
		e.Release()
	}
}

func TestEventRetry(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"retry: 1500\n": 1500 * time.Millisecond, "retry: 0\n": 0, "retry:\n": -1, "retry: -5\n": -1, "retry: 5s\n": -1,
		"retry: 99999999999999999999999\n": maxRetry, "": -1,
	} {
		if _, got, _ := readEvents(strings.NewReader(in), 0); got != want {
			t.Errorf("%q: got %v, want %v", in, got, want)
		}
	}
}

// referenceEvents reads a whole stream with the algorithm of the HTML standard.
func referenceEvents(in string) (all []string) {
	in = strings.TrimPrefix(in, "\xEF\xBB\xBF")
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n"), "\n")
	var name, data, id, last string
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			last = id
			if data != "" {
				all = append(all, fmt.Sprintf("%s|%s|%s", name, data[:len(data)-1], last))
			}
			name, data = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "event":
			name = value
		case field == "data":
			data += value + "\n"
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
	return append(all, "end "+last)
}

// FuzzEvents compares EventReader with referenceEvents.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "\xEF\xBB\xBFid: 1\r\ndata: x\rdata\n\r\n", ":\r\r\n\nid\ndata:\n\n", "event: e\ndata: {}\n\nid: \x00\n\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		want := referenceEvents(string(in))
		if len(in) > maxExcerpt { // names and ids are bounded
			return
		}
		for i, r := range []io.Reader{bytes.NewReader(in), iotest.OneByteReader(bytes.NewReader(in)), iotest.HalfReader(bytes.NewReader(in))} {
			if got, _, err := readEvents(r, 0); !slices.Equal(got, want) || err != io.EOF {
				t.Fatalf("reader %d: got %q, %v, want %q", i, got, err, want)
			}
		}
		for _, max := range []int{1, 3, 8} { // no event exceeds the limit
			e := NewEventReader(bytes.NewReader(in), max)
			for {
				ev, err := e.Next()
				var large *TooLargeError
				if err != nil && !errors.As(err, &large) {
					break
				}
				if len(ev.Data) > max {
					t.Fatalf("max %d: event %q", max, ev.Data)
				}
			}
			e.Release()
		}
	})
}

func BenchmarkEvents(b *testing.B) {
	msg := "event: message\nid: 12\ndata: " + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}` + "\n\n"
	in := strings.Repeat(msg, 100)
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		e := NewEventReader(strings.NewReader(in), 0)
		for {
			if _, err := e.Next(); err != nil {
				break
			}
		}
		e.Release()
	}
}

// TestIgnoredFieldsAreCounted checks that Wasted is called for comments, fields without data, and
// data above the limit, but not for events.
func TestIgnoredFieldsAreCounted(t *testing.T) {
	for stream, want := range map[string]int{
		strings.Repeat("event: message\nid: 1\nretry: 5\ndata: x\n\n", 100): 0,
		strings.Repeat(":\n", 100):                                   100,
		strings.Repeat("\n", 100):                                    100,
		strings.Repeat("id: 1\n", 100):                               100 - usualFields,
		"data: " + strings.Repeat("x", 1<<20) + "\n\n":               1 << 20 / windowSize / 2,
		strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 100): 90,
	} {
		wasted := 0
		e := NewEventReader(strings.NewReader(stream), 4<<10)
		e.Wasted = func(int) { wasted++ }
		for {
			_, err := e.Next()
			if large := new(TooLargeError); err != nil && err.Error() != large.Error() && err == io.EOF {
				break
			}
		}
		e.Release()
		if wasted < want || want == 0 && wasted > 0 {
			t.Errorf("%.40q: %d, want %d", stream, wasted, want)
		}
	}
}

// TestEventWindowIsSearchedOnce checks that the end of each line is not searched for in all that
// has been read: what appears there after the first search is not found.
func TestEventWindowIsSearchedOnce(t *testing.T) {
	const line = ":abcdef\r"
	r := NewEventReader(bytes.NewReader(bytes.Repeat([]byte(line), windowSize/len(line))), 0)
	defer r.Release()
	for i := range windowSize / len(line) {
		if l, err := r.readLine(); err != nil || len(l.text) != len(line)-1 {
			t.Fatalf("line %d: %q, %v", i, l.text, err)
		}
		r.window[windowSize-3] = '\n'
	}
}
