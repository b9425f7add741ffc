package sandbox

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestArithmetic checks that generated programs about ints, lists, loops and calls have
// the outcome in the guest that is recorded for the interpreter outside of it, where ints
// are represented differently, errors with their positions included. A small memory
// makes the guest's collector run. Without -long it runs every third program.
func TestArithmetic(t *testing.T) {
	archive, err := txtar.ParseFile("../../../guest/interp/testdata/arithmetic.txtar")
	if err != nil {
		t.Fatal(err)
	}
	s := realSandbox(t)
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	ran := 0
	for _, f := range archive.Files {
		name, ok := strings.CutSuffix(f.Name, ".star")
		if !ok {
			continue
		}
		if ran++; !*long && ran%3 > 0 {
			continue
		}
		code := string(f.Data)
		for _, limit := range []uint64{0, 16 << 20} {
			caller := &fakeCaller{}
			r := request(code, "{}")
			r.Name, r.Servers = name, []string{"demo", "other"}
			out, err := s.Run(context.Background(), Run{Request: r, Limits: Limits{Memory: limit}, Caller: caller})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			text, log := string(out.Result)+"\n", ""
			if e := out.Err; e != nil {
				text = fmt.Sprintf("error: %s\nmessage: %s\n", e.Type, e.Message)
				if p := e.Position; p != nil {
					text += fmt.Sprintf("at: %s:%d:%d\n  | %s\n  | %s^\n", p.File, p.Line, p.Column, p.Source, strings.Repeat(" ", p.Column-1))
				}
				if e.Limit != "" {
					text += fmt.Sprintf("limit: %s\n", e.Limit)
				}
				if e.Stack != "" {
					text += e.Stack + "\n"
				}
			}
			for _, entry := range caller.logs {
				log += "0 " + entry + "\n"
			}
			if text != files[name+".out"] || log != files[name+".log"] {
				t.Errorf("%s:\n%s%s\nrecorded:\n%s%s", name, log, text, files[name+".log"], files[name+".out"])
			}
		}
	}
	if ran != 100 {
		t.Errorf("only %d programs", ran)
	}
}
