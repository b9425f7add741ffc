package durable

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// BenchmarkCall measures what a call of a durable run costs more: its intent, which is on disk
// when Intend returns, and its answer of 1 KB.
func BenchmarkCall(b *testing.B) {
	aead, err := NewAEAD(make([]byte, 32))
	if err != nil {
		b.Fatal(err)
	}
	runs := New(Options{Store: NewFolder(b.TempDir()), AEAD: aead, Owner: func() (string, error) { return "o", nil }, Manual: true})
	defer runs.Close(b.Context())
	begin := journal.Begin{Params: []byte("{}")}
	begin.Definition.Name, begin.Definition.Code = "t", "x"
	r, err := runs.Begin(b.Context(), journal.NewID(time.Now()), time.Now(), &begin, About{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close(b.Context())
	arguments := fmt.Appendf(nil, `{"text":"%0256d"}`, 0)
	answer := fmt.Appendf(nil, `{"content":[{"type":"text","text":"%01024d"}]}`, 0)
	for i := 1; b.Loop(); i++ {
		rec := journal.CallRecord{Seq: i, Server: "s", Tool: "t", Request: abi.ToolCall{Server: "s", Tool: "t", Arguments: arguments}}
		r.Keep(func(l *journal.Lines) { l.Call(r.ID(), &rec) })
		if err := r.Intend(b.Context(), r.ID(), i, "s", "t", arguments); err != nil {
			b.Fatal(err)
		}
		rec.Done, rec.Answer.Result, rec.Answer.Value = true, answer, []byte("1")
		if err := r.Answer(b.Context(), r.ID(), &rec); err != nil {
			b.Fatal(err)
		}
	}
}
