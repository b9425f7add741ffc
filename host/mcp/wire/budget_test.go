package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func readBudget(t *testing.T, b *budget.Budget) *ReadBudget {
	return &ReadBudget{Context: t.Context(), Open: func() *budget.Hold { return b.Open("client") }}
}

// TestReaderCountsLargeMessages checks that large messages count against the budget while they are
// referenced, that messages that do not fit are skipped, and that small ones are free.
func TestReaderCountsLargeMessages(t *testing.T) {
	b := budget.New(5 << 19)
	large := strings.Repeat("a", 100<<10)
	in := strings.Join([]string{"small", large, strings.Repeat("b", 600<<10), "next", strings.Repeat("c", 3<<20), "last"}, "\n")
	r := NewReader(strings.NewReader(in), 2<<20).WithBudget(readBudget(t, b))
	read := func(want string) []byte {
		t.Helper()
		got, err := r.Read()
		if err != nil || string(got) != want {
			t.Fatalf("%d bytes, %v, want %d", len(got), err, len(want))
		}
		return got
	}
	tooLarge := func(name string, limit int) {
		t.Helper()
		var e *TooLargeError
		if _, err := r.Read(); !errors.As(err, &e) || e.LimitName() != name || limit > 0 && e.Limit != limit {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	read("small")
	if f := b.Figures(); f.Used != 0 {
		t.Errorf("a small message: %+v", f)
	}
	got := read(large)
	if f := b.Figures(); f.Used < 200<<10 {
		t.Errorf("a large message: %+v", f)
	}
	runtime.KeepAlive(got)
	tooLarge("total_memory", 0)
	read("next")
	tooLarge("total_memory", 0) // reached before its length is known
	read("last")
	if _, err := r.Read(); err != io.EOF {
		t.Error(err)
	}
	r = NewReader(strings.NewReader(large), 90<<10).WithBudget(readBudget(t, b))
	tooLarge("message", 90<<10)
}

// TestReadAll checks bodies of known and unknown length, whole, broken and too long.
func TestReadAll(t *testing.T) {
	const most = 300 << 10
	for _, length := range []int{0, 1, 4096, 4097, 65536, 65537, most - 1, most, most + 1, 2 * most} {
		text := bytes.Repeat([]byte("x"), length)
		for name, size := range map[string]int64{"known": int64(length), "unknown": -1} {
			if size > most {
				continue // the caller has checked that
			}
			for _, limit := range []*ReadBudget{nil, readBudget(t, budget.New(32<<20))} {
				t.Run(fmt.Sprint(length, name, limit != nil), func(t *testing.T) {
					got, err := limit.ReadAll(iotest.HalfReader(bytes.NewReader(text)), size, most, 100)
					var large *TooLargeError
					switch {
					case length > most:
						if !errors.As(err, &large) || large.Limit != most || len(got) != 100 {
							t.Errorf("%d bytes, %v", len(got), err)
						}
					case err != nil || !bytes.Equal(got, text):
						t.Errorf("%d bytes, %v", len(got), err)
					}
				})
			}
		}
	}
	if _, err := (*ReadBudget)(nil).ReadAll(strings.NewReader("ab"), 3, most, 100); err != io.ErrUnexpectedEOF {
		t.Errorf("a body that breaks off: %v", err)
	}
	broken := errors.New("broken")
	if _, err := (*ReadBudget)(nil).ReadAll(iotest.ErrReader(broken), -1, most, 100); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestWriteLargeLines checks that large messages are written whole, in any mix.
func TestWriteLargeLines(t *testing.T) {
	large := strings.Repeat("y", maxReused)
	msgs := [][]byte{[]byte("a"), []byte(large), []byte("b"), []byte("c\nd"), []byte(large + "\n" + large), []byte("e")}
	var out bytes.Buffer
	whole, begun, _, err := WriteLines(&out, nil, msgs)
	if want := "a\n" + large + "\nb\nc d\n" + large + " " + large + "\ne\n"; err != nil || whole != 6 || begun != 6 || out.String() != want {
		t.Errorf("%d whole, %d begun, %v, %d bytes", whole, begun, err, out.Len())
	}
	for most, want := range map[int][2]int{1: {0, 1}, 2: {1, 1}, 3: {1, 2}, maxReused + 2: {1, 2}, maxReused + 3: {2, 2}} {
		whole, begun, _, err := WriteLines(&limited{most}, nil, msgs)
		if err == nil || [2]int{whole, begun} != want {
			t.Errorf("after %d bytes: %d whole, %d begun, %v", most, whole, begun, err)
		}
	}
}

// limited accepts a number of bytes and then fails.
type limited struct{ left int }

func (l *limited) Write(p []byte) (int, error) {
	if len(p) <= l.left {
		l.left -= len(p)
		return len(p), nil
	}
	n := l.left
	l.left = 0
	return n, io.ErrShortWrite
}
