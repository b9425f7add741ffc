package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(runChild())
	}
	goleak.VerifyTestMain(m)
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// openLog opens a Log that is closed at the end of the test.
func openLog(t testing.TB, dir string, opts LogOptions) *Log {
	t.Helper()
	if opts.Log == nil {
		opts.Log = quiet()
	}
	l := OpenLog(dir, opts)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// begin opens a run and fails the test if that fails.
func begin(t testing.TB, l *Log, b Begin) *Run {
	t.Helper()
	r, err := l.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scan collects everything that Scan yields.
func scan(dir string, f Filter) (all []Record, faults []error) {
	for r, err := range Scan(context.Background(), dir, f) {
		if err != nil {
			faults = append(faults, err)
			continue
		}
		all = append(all, r)
	}
	return all, faults
}

// dice generates random records.
type dice struct{ *rand.Rand }

func newDice(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 7))} }

func (d dice) text() string {
	pieces := []string{"", "a", "ä", "\n", "\"", "\\", "\x00", "\u2028", "😀", "</script>", "long ", "\xff\xfe", "null", "{}"}
	s := ""
	for range d.IntN(6) {
		s += pieces[d.IntN(len(pieces))]
	}
	return s
}

func (d dice) name() string { return fmt.Sprintf("n%d", d.IntN(1000)) }

// json returns a random value, of any kind of JSON.
func (d dice) json(depth int) []byte {
	switch n := d.IntN(8); {
	case n == 0:
		return []byte("12345678901234567890.120e-3")
	case n == 1:
		return []byte("null")
	case n == 2:
		return wire.Quote(d.text())
	case n == 3:
		return []byte(`"\ud800\u0041\/"`)
	case n == 4 || depth == 0:
		return []byte("true")
	case n == 5:
		return fmt.Appendf(nil, "[%s,\r\n%s]", d.json(depth-1), d.json(depth-1))
	}
	return d.object(depth)
}

func (d dice) object(depth int) []byte {
	b := []byte("{")
	for i := range d.IntN(4) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, wire.Quote(d.text())...), ": "...), d.json(depth-1)...)
	}
	if d.IntN(4) == 0 {
		b = append(b, '\n')
	}
	return append(b, '}')
}

// maybe returns an object or nil.
func (d dice) maybe() []byte {
	if d.IntN(2) == 0 {
		return nil
	}
	return d.object(3)
}

func (d dice) begin() Begin {
	limits, err := tools.ParseLimits([]byte(`{"fuel":20000000,"memory":"64MB","timeout":"3s","calls":5,"later":[1]}`))
	if err != nil {
		panic(err)
	}
	b := Begin{
		Definition: tools.Definition{
			Name: d.name(), Description: d.text(), InputSchema: d.object(3), OutputSchema: d.maybe(), Code: d.text(),
		},
		Saved: d.IntN(2) == 0, Params: d.object(3), Meta: d.maybe(), Guest: d.name(),
		Client: Client{Session: d.name(), Name: d.text(), Version: d.text(), Token: d.name()},
	}
	if d.IntN(4) == 0 {
		b.Continues, b.Elapsed = d.name(), time.Duration(d.IntN(1e9))
	}
	if d.IntN(2) == 0 {
		b.Definition.Limits = limits
		b.Definition.Extra = []tools.Member{{Name: d.text(), Value: d.json(2)}}
		b.Servers = []string{"a", d.name()}
		b.AgentTools = []string{d.name()}
		b.Limits = Limits{time.Second, 1 << 40, 1<<64 - 1, 1, 2, 3, 4, 5}
	}
	return b
}

func (d dice) request() abi.ToolCall {
	return abi.ToolCall{
		Server: d.name(), Tool: d.text(), Exact: d.IntN(2) == 0, Raw: d.IntN(2) == 0,
		Timeout: []float64{0, 0.1, 1e-9, 1e300}[d.IntN(4)], Meta: d.maybe(), Arguments: d.object(2),
	}
}

func (d dice) callError() *abi.CallError {
	if d.IntN(2) == 0 {
		return nil
	}
	return &abi.CallError{Type: abi.ErrTool, Server: d.name(), Tool: d.text(), Message: d.text(), Details: d.maybe(), Limit: d.text()}
}

// answer returns an answer with any relation between its result and its value.
func (d dice) answer() Answer {
	long := string(bytes.Repeat([]byte("x"), smallValue))
	inner := fmt.Sprintf(`{"a":%q}`, long)
	result := func(content string, more string) []byte {
		return fmt.Appendf(nil, `{"content":%s%s}`, content, more)
	}
	block := func(text string) string { return fmt.Sprintf(`[{"type":"text","text":%s}]`, wire.Quote(text)) }
	switch d.IntN(8) {
	case 0:
		return Answer{Err: d.callError()}
	case 1:
		return Answer{Decision: &Decision{Action: string(policy.Deny), Rule: d.text(), Reason: d.text()}, RPCError: d.object(2), Err: &abi.CallError{Type: abi.ErrTool, Message: d.text()}}
	case 2:
		r := result(block(d.text()), `,"_meta":{"a":1}`)
		return Answer{Result: r, Meta: []byte(`{"a":1}`), Value: r}
	case 3:
		return Answer{Result: result(block(long), ""), Value: wire.Quote(long)}
	case 4:
		return Answer{Result: result(block(" "+inner+"\n"), ""), Value: []byte(inner)}
	case 5:
		return Answer{Result: result(`[]`, `,"structuredContent":`+inner), Value: []byte(inner)}
	case 6:
		content := block(long)
		return Answer{Result: result(content, ""), Value: []byte(content)}
	}
	return Answer{Result: d.object(3), Value: d.json(3)}
}

// play makes a run do random things.
func (d dice) play(r *Run, open func(Begin) *Run, depth int) {
	var calls []*Call
	for range d.IntN(8) {
		switch d.IntN(7) {
		case 6:
			r.Input(InputRecord{Call: d.IntN(9), Name: d.text(), Method: d.name(), Params: d.maybe(), Answer: d.maybe(), Own: d.IntN(2) == 0})
		case 0:
			r.Log(abi.LogLevel(d.IntN(5)), d.text())
		case 1:
			r.Undo(UndoRecord{Request: d.request(), Server: d.name(), Tool: d.text(), Err: d.callError()})
		case 2:
			calls = append(calls, r.OpenUndo(d.request(), d.name(), d.text()))
		default:
			calls = append(calls, r.OpenCall(d.request(), d.name(), d.name()))
		}
	}
	d.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
	for _, c := range calls {
		switch d.IntN(6) {
		case 0:
			continue
		case 1:
			c.Begin()
			c.Progress()
		}
		a := d.answer()
		if depth > 0 && d.IntN(3) == 0 {
			b := d.begin()
			b.Parent = &Parent{r.ID(), c.Seq()}
			child := open(b)
			d.play(child, open, depth-1)
			rec := child.Record()
			a.Run = &rec
		}
		c.Close(a)
	}
	if d.IntN(5) == 0 {
		return
	}
	o := Outcome{Result: d.json(2), Fuel: d.Uint64(), Checked: d.Uint64(), Memory: 1}
	if d.IntN(2) == 0 {
		o = Outcome{Error: abi.ErrTool, Message: d.text(), Failure: d.object(2)}
	}
	r.Close(o)
}

// onDisk returns a record in the form in which it is read back from disk.
func onDisk(r Record) Record {
	r.Start = r.Start.UTC().Round(0)
	for i := range r.Calls {
		if run := r.Calls[i].Answer.Run; run != nil {
			child := onDisk(*run)
			r.Calls[i].Answer.Run = &child
		}
	}
	return r
}

// same compares records and reports the first difference.
func same(t *testing.T, what string, got, want Record) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	a, _ := json.MarshalIndent(got, "", " ")
	b, _ := json.MarshalIndent(want, "", " ")
	t.Errorf("%s:\n%s\nwant\n%s", what, a, b)
}

// TestRoundTrip checks that Scan, Find, and Encode with Decode return what runs did.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(40) {
		d := newDice(seed)
		dir := filepath.Join(t.TempDir(), "logs")
		l := openLog(t, dir, LogOptions{MaxSize: 4096})
		var want []Record
		for range 3 {
			r := begin(t, l, d.begin())
			d.play(r, func(b Begin) *Run { return begin(t, l, b) }, 2)
			want = append([]Record{onDisk(r.Record())}, want...)
		}
		// The clock of some systems is so coarse that runs begin at the same time.
		slices.SortStableFunc(want, func(a, b Record) int { return strings.Compare(b.ID, a.ID) })
		got, faults := scan(dir, Filter{})
		if len(faults) > 0 || len(got) != len(want) {
			t.Fatalf("seed %d: %d runs, want %d; %v", seed, len(got), len(want), faults)
		}
		for i := range want {
			var b bytes.Buffer
			if err := Encode(&b, want[i]); err != nil {
				t.Fatal(err)
			}
			decoded, err := Decode(&b)
			if err != nil {
				t.Fatal(seed, err)
			}
			same(t, fmt.Sprintf("seed %d: decoded", seed), decoded, withoutDigests(want[i]))
			unstarted(&want[i], &got[i])
			same(t, fmt.Sprintf("seed %d: run %d", seed, i), got[i], want[i])
			found, err := Find(t.Context(), dir, want[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "found", found, got[i])
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// unstarted copies from got what the disk cannot know: the fate of unanswered calls,
// and the last log entries of runs without an end, which were not written.
func unstarted(want, got *Record) {
	if !want.Done && len(got.Logs) < len(want.Logs) {
		want.Logs = want.Logs[:len(got.Logs):len(got.Logs)]
		if len(got.Logs) == 0 {
			want.Logs = nil
		}
	}
	for i := range want.Calls {
		if i >= len(got.Calls) {
			return
		}
		a, b := &want.Calls[i], &got.Calls[i]
		if !a.Done {
			a.Progress = 0
			if b.Start <= a.Start {
				a.Start = b.Start
			}
		}
		if a.Answer.Run != nil && b.Answer.Run != nil {
			unstarted(a.Answer.Run, b.Answer.Run)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{})
	a := begin(t, l, Begin{Definition: tools.Definition{Name: "a"}})
	b := begin(t, l, Begin{Definition: tools.Definition{Name: "b"}})
	inner := begin(t, l, Begin{Definition: tools.Definition{Name: "inner"}, Parent: &Parent{b.ID(), 1}})
	for id, want := range map[string]string{a.ID(): "a", b.ID(): "b", inner.ID(): "inner"} {
		if r, err := Find(t.Context(), dir, id); err != nil || r.Definition.Name != want {
			t.Errorf("%s: %v, %v", id, r.Definition.Name, err)
		}
	}
	var ambiguous *AmbiguousError
	if _, err := Find(t.Context(), dir, a.ID()[:8]); !errors.As(err, &ambiguous) || len(ambiguous.IDs) != 2 {
		t.Errorf("prefix of two: %v", err)
	}
	if s := (&AmbiguousError{"a", strings.Split("a1,a2,a3,a4,a5,a6,a7", ",")}).Error(); s != "run a: several ids begin with this: a1, a2, a3, a4, a5 and 2 others (give more of the id)" {
		t.Error(s)
	}
	for _, id := range []string{"", "ffff", "a/b", "\"", a.ID() + "0"} {
		if _, err := Find(t.Context(), dir, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := Find(t.Context(), filepath.Join(dir, "nowhere"), a.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("no directory: %v", err)
	}
}

// TestScanEndsWithItsContext checks that reading a long journal ends when its caller no longer
// waits: while files are read, and while a run is read.
func TestScanEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{})
	for range 100 {
		record(t, l, "a")
	}
	cause := errors.New("nobody waits")
	for name, read := range map[string]func(ctx context.Context, stop func()) (int, error){
		"Scan": func(ctx context.Context, stop func()) (n int, last error) {
			for _, last = range Scan(ctx, dir, Filter{}) {
				if n++; n == 3 {
					stop()
				}
			}
			return n, last
		},
		"ScanProxied": func(ctx context.Context, stop func()) (n int, last error) {
			stop()
			for _, last = range ScanProxied(ctx, dir, Filter{}) {
				n++
			}
			return n, last
		},
		"Find": func(ctx context.Context, stop func()) (int, error) {
			stop()
			_, err := Find(ctx, dir, "0")
			return 0, err
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if n, err := read(ctx, func() { cancel(cause) }); n > 4 || !errors.Is(err, cause) {
			t.Errorf("%s: %d, then %v", name, n, err)
		}
		cancel(nil)
	}
}

// withoutDigests returns a record as Encode writes it: it is no copy of the journal.
func withoutDigests(r Record) Record {
	r.Head, r.Seal = "", nil
	r.Calls = slices.Clone(r.Calls)
	for i := range r.Calls {
		if below := r.Calls[i].Answer.Run; below != nil {
			without := withoutDigests(*below)
			r.Calls[i].Answer.Run = &without
		}
	}
	return r
}
