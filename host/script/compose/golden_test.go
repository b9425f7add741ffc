package compose

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/host/guard/permissions"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

var update = flag.Bool("update", false, "write the expectations of testdata/*.txtar anew")

// TestGolden runs scripts in the real guest. The files of an archive are:
//
//	code, arguments    the script and optional arguments
//	input, output      schemas
//	upstreams          a line per tool: NAME RESULT, or NAME !RPCERROR
//	debug              present: in debug mode
//	want.json          the result in readable form
//	want.text          the text of the result
//	want.calls         the params of each call, as the upstream received them
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d archives, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, archive)
		})
	}
}

func golden(t *testing.T, file string, archive *txtar.Archive) {
	in := map[string]string{}
	kept := archive.Files[:0:0]
	for _, f := range archive.Files {
		if in[f.Name] = string(f.Data); !strings.HasPrefix(f.Name, "want.") {
			kept = append(kept, f)
		}
	}
	u := goldenUpstreams(t, in["upstreams"])
	def := saved(in["code"])
	if s := in["input"]; s != "" {
		def.InputSchema = json.RawMessage(strings.TrimSpace(s))
	}
	if s := in["output"]; s != "" {
		def.OutputSchema = json.RawMessage(strings.TrimSpace(s))
	}
	c := composer(sandboxtest.Guest(t), u, func(o *Options) { _, o.Debug = in["debug"] })
	call := []byte(`{"name":"job"}`)
	if a := in["arguments"]; a != "" {
		call = params(strings.TrimSpace(a))
	}
	reply := c.CallSaved(t.Context(), def, route.Call{Params: call})

	want := []txtar.File{
		{Name: "want.json", Data: readable(t, reply.Result)},
		{Name: "want.text", Data: []byte(textOf(t, reply) + "\n")},
	}
	if calls := u.calls(); len(calls) > 0 {
		want = append(want, txtar.File{Name: "want.calls", Data: []byte(strings.Join(calls, "\n") + "\n")})
	}
	if *update {
		out := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: append(kept, want...)})
		if err := os.WriteFile(file, out, 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, w := range want {
		if in[w.Name] != string(w.Data) {
			t.Errorf("%s is\n%s\nwant\n%s", w.Name, w.Data, in[w.Name])
		}
		delete(in, w.Name)
	}
	for name := range in {
		if strings.HasPrefix(name, "want.") {
			t.Errorf("%s is left over", name)
		}
	}
	conforms(t, def, reply)
}

// conforms checks a result against the advertised schema, as clients do. The official
// TypeScript client also checks errors.
func conforms(t *testing.T, def tools.Definition, reply wire.Reply) {
	t.Helper()
	schema, ok := wire.Get(ToolDefinition(def, permissions.Worst), "outputSchema")
	if !ok {
		return
	}
	s, err := tools.CompileSchema(schema, "advertised outputSchema")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate([]byte(get(t, reply, "structuredContent")), nil); err != nil {
		t.Errorf("the result does not match the advertised schema: %v", err)
	}
}

func goldenUpstreams(t *testing.T, lines string) *upstreams {
	u := &upstreams{}
	for line := range strings.Lines(lines) {
		name, answer, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			t.Fatalf("upstreams: %q", line)
		}
		if e, isError := strings.CutPrefix(answer, "!"); isError {
			u.failure(name, e)
		} else {
			u.result(name, answer)
		}
	}
	return u
}

var varying = []struct {
	re     *regexp.Regexp
	with   string
	absent bool // if the run never started
}{
	{regexp.MustCompile(`"executionTime": [0-9.]+`), `"executionTime": 1.5`, false},
	{regexp.MustCompile(`"run": "[0-9a-f-]{36}"`), `"run": "RUN"`, false},
	{regexp.MustCompile(`"memory": [0-9]+`), `"memory": 1`, true},
	{regexp.MustCompile(`"fuel": [0-9]+`), `"fuel": 1`, true}, // always the same, except with another guest
}

// readable returns a result with placeholders for values with a new value in each run.
func readable(t *testing.T, result []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, result, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, result)
	}
	text := b.Bytes()
	for _, v := range varying {
		if !v.re.Match(text) && !v.absent {
			t.Errorf("no %s in %s", v.re, text)
		}
		text = v.re.ReplaceAll(text, []byte(v.with))
	}
	return fmt.Appendf(nil, "%s\n", text)
}
