package sandbox

import (
	"bytes"
	"context"
	_ "embed"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/guestbuild"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

//go:embed guest.sum
var sumText string

// TestGuestIsBuilt checks that guest.wasm.gz was built from the current sources.
func TestGuestIsBuilt(t *testing.T) {
	testenv.Program(t, "go")
	root, err := guestbuild.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	in, err := guestbuild.ReadInputs(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	if err := guestbuild.Compare(sumText, committed(t), in); err != nil {
		t.Error(err)
	}
}

// FuzzMessages checks that any bytes that a guest sends as a message are refused or
// are a valid message.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`[{"server":"s","tool":"t","exact":true,"raw":false,"arguments":{"a":[1,"]\"{"]}}]`, `[]`, `{}`, `null`, "\"\\\"[\"", "",
		`{"type":"runtime","message":"m","position":{"file":"f","line":1,"column":1},"call":{"type":"tool","server":"s","tool":"t","message":"m","details":[{}]}}`,
		`{"type":"cancelled"}`, `{"progress":0.5,"total":2,"message":"x"}`, `{"progress":1e999}`, strings.Repeat("[", 1200) + strings.Repeat("]", 1200), "[\xff]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if calls, err := decodeCalls(b); err == nil {
			if len(calls) == 0 || len(calls) > abi.MaxBatch {
				t.Errorf("%d calls", len(calls))
			}
			for _, c := range calls {
				if c.Server == "" || c.Tool == "" || jsontext.Value(c.Arguments).Kind() != '{' || checkValue(c.Arguments, abi.MaxDepth) != nil {
					t.Errorf("%+v", c)
				}
			}
		}
		if e, err := decodeError(b); err == nil && (e.Type == "" || e.Type == abi.ErrCancelled) {
			t.Errorf("%+v", e)
		}
		if checkValue(b, 1<<30) == nil {
			if got, want := nesting(b), slowNesting(t, b); got != want {
				t.Errorf("nesting %d, want %d", got, want)
			}
		}
	})
}

func slowNesting(t *testing.T, b []byte) (deepest int) {
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}

// TestLargeBatch checks that no call is made of a batch with too many: three bytes would be 200.
func TestLargeBatch(t *testing.T) {
	batch := []byte("[" + strings.Repeat("{},", 1_000_000) + "{}]")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := decodeCalls(batch)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > uint64(len(batch)) {
		t.Errorf("%v, after %d bytes were allocated for %d", err, got, len(batch))
	}
}
