package journal_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// planted is a secret that looks different in every encoding. Its parts occur nowhere
// else.
const planted = `Pl4nted"C0reX\Y<s3cret>`

// encodedForms returns the forms that a secret can have within a text.
func encodedForms() []string {
	escaped := ""
	for _, c := range []byte(planted) {
		escaped += fmt.Sprintf(`\u%04X`, c)
	}
	quoted := string(wire.Quote(planted))
	return []string{
		planted, quoted, string(wire.Quote(quoted)), escaped, string(wire.Quote(escaped)),
		url.QueryEscape(planted), "https://u:" + url.PathEscape(planted) + "@host/",
		"Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+planted)), hex.EncodeToString([]byte(planted)),
		`{"a":` + quoted + `,"b":[1]}`, "Authorization: Bearer " + planted, "ghp_ABCDEFGHIJ and " + planted,
	}
}

// text returns a text with every form of the secret.
func text() string { return "begin " + strings.Join(encodedForms(), " | ") + " end" }

// object returns JSON with every form of the secret, as values and as names.
func object() []byte {
	b := []byte(`{"first":0`)
	for i, d := range encodedForms() {
		b = append(b, fmt.Sprintf(",\n \"k%d\": [%s, {%s:1}]", i, wire.Quote(d), wire.Quote(d))...)
	}
	escaped := strings.ReplaceAll(string(wire.Quote(planted)), "4", `\u0034`)
	return append(b, `,"e":`+escaped+`,"last":[24681357, -24681357.5]}`...)
}

// leaks returns the traces of the secrets in the files of a journal.
func leaks(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	content := ""
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		content += string(data)
	}
	// Resolve escapes, however deeply nested.
	for range 5 {
		plain := regexp.MustCompile(`\\+u00([0-9a-fA-F]{2})|%([0-9a-fA-F]{2})`).ReplaceAllStringFunc(content, func(s string) string {
			b, err := hex.DecodeString(s[len(s)-2:])
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		})
		content += plain
		if len(content) > 1<<22 {
			break
		}
	}
	var found []string
	traces := []string{"Pl4nted", "C0reX", "s3cret", "24681357", "ghp_ABC", hex.EncodeToString([]byte("Pl4nted"))}
	for offset := range 3 {
		coded := base64.StdEncoding.EncodeToString([]byte("xxx"[:offset] + planted))
		traces = append(traces, coded[4:16])
	}
	for _, trace := range traces {
		if at := strings.Index(content, trace); at >= 0 {
			found = append(found, content[max(0, at-80):min(len(content), at+80)])
		}
	}
	return found
}

// everywhere records runs with the secret in every place.
func everywhere(t *testing.T, l *journal.Log, proxied bool) {
	t.Helper()
	callError := &abi.CallError{Type: abi.ErrTool, Server: text(), Tool: text(), Message: text(), Details: object(), Limit: text()}
	request := abi.ToolCall{Server: text(), Tool: text(), Arguments: object(), Meta: object()}
	r, err := l.Open(journal.Begin{
		Definition: tools.Definition{
			Name: text(), Description: text(), InputSchema: object(), OutputSchema: object(), Code: text(),
			Extra: []tools.Member{{Name: text(), Value: object()}},
		},
		Params: object(), Meta: object(), Servers: []string{text()}, AgentTools: []string{text()}, Guest: text(),
		Client: journal.Client{Session: text(), Name: text(), Version: text(), Token: text()},
	})
	if err != nil {
		t.Fatal(err)
	}
	result := fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}],"_meta":%s}`, wire.Quote(text()), object())
	for _, a := range []journal.Answer{
		{Result: result, Meta: object(), Value: wire.Quote(text())},
		{Result: result, Value: result},
		{Result: fmt.Appendf(nil, `{"structuredContent":%s}`, object()), Value: object()},
		{RPCError: object(), Err: callError},
		{Value: []byte("24681357")},
	} {
		r.OpenCall(request, text(), text()).Close(a)
	}
	r.OpenUndo(request, text(), text())
	r.Undo(journal.UndoRecord{Request: request, Server: text(), Tool: text(), Err: callError})
	r.Log(abi.LogInfo, text())
	r.Close(journal.Outcome{Error: abi.ErrorType(text()), Message: text(), Failure: object(), Result: object()})
	if proxied {
		l.Proxied(journal.Proxied{
			Start: time.Now(), Server: text(), Tool: text(), Outcome: text(), Params: object(), Result: object(), RPCError: object(),
			Client: journal.Client{Session: text(), Name: text(), Version: text(), Token: text()},
		})
	}
}

// TestSecrets checks that no secret reaches the disk, wherever it is and in whatever
// form, and that the records can be read.
func TestSecrets(t *testing.T) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	dir := t.TempDir()
	masker := (&config.Config{Secrets: []string{"other-secret"}}).NewMasker()
	l := journal.OpenLog(dir, journal.LogOptions{
		Log: quiet, Redactor: config.NewRedactor(masker, []*regexp.Regexp{regexp.MustCompile(`ghp_[A-Z]{10}`)}),
	})
	masker.Add(planted, "24681357") // as when a configuration is read again
	everywhere(t, l, true)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, leak := range leaks(t, dir) {
		t.Errorf("on disk: ...%s...", leak)
	}
	n := 0
	for rec, err := range journal.Scan(t.Context(), dir, journal.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if !rec.Redacted || len(rec.Calls) != 6 || !rec.Done || !wire.IsObject(rec.Params) || !wire.IsObject(rec.Calls[1].Answer.Value) || len(rec.Logs) != 1 {
			t.Errorf("record %+v", rec)
		}
		if first, _ := wire.Get(rec.Params, "first"); string(first) != "0" {
			t.Errorf("params %s", rec.Params)
		}
	}
	for p, err := range journal.ScanProxied(t.Context(), dir, journal.Filter{}) {
		if n++; err != nil || !p.Redacted || !wire.IsObject(p.Result) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if n != 2 {
		t.Errorf("%d records", n)
	}
}

// TestLeaks checks that leaks finds secrets when nothing is redacted.
func TestLeaks(t *testing.T) {
	dir := t.TempDir()
	l := journal.OpenLog(dir, journal.LogOptions{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	everywhere(t, l, false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if found := leaks(t, dir); len(found) < 7 {
		t.Errorf("only %d traces of a secret that is everywhere: %q", len(found), found)
	}
	for rec, err := range journal.Scan(t.Context(), dir, journal.Filter{}) {
		if err != nil || rec.Redacted {
			t.Errorf("redacted: %v, %v", rec.Redacted, err)
		}
	}
}
