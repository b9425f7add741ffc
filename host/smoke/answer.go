package smoke

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// answer is the outcome of a check.
type answer struct {
	// For a call:
	result   []byte         // raw CallToolResult; nil for none
	refused  *wire.RPCError // the JSON-RPC error, without a result
	progress [][]byte       // raw params of progress notifications, in order

	run *journal.Record // the record of a script's run; nil for none

	unmocked []*cassette.UnmatchedError // calls of the script that matched no mock

	// For a cancelled call:
	cancelled   bool
	stopped     time.Duration // from the cancellation until all work had ended
	afterCancel []string      // why the call seems to have gone on

	// For the check of a server:
	server    string
	handshake []byte // raw result of initialize
	lists     pins.Lists

	// decide returns the policy decision about the call by a client; "": the check's own client.
	// Nil for a call with mocks.
	decide func(client string) policy.Decision

	took   time.Duration
	redact func(json []byte) []byte // replaces secrets in JSON
}

// isError reports whether the tool returned an error.
func (a *answer) isError() bool {
	flag, _ := wire.Get(a.result, "isError")
	return string(flag) == "true"
}

// script returns the receipt of a composite tool; ok is false if another tool answered.
func (a *answer) script() (receipt []byte, ok bool) {
	return wire.Get(a.result, "_meta", compose.ReceiptKey)
}

// number returns a member of the receipt of a script.
func (a *answer) number(name string) (n uint64, ok bool) {
	receipt, _ := a.script()
	raw, ok := wire.Get(receipt, name)
	return n, ok && json.Unmarshal(raw, &n) == nil
}

// usage returns the resources that a script used; nil for an answer without a script.
func (a *answer) usage() *report.Usage {
	if _, ok := a.script(); !ok {
		return nil
	}
	var u report.Usage
	u.Fuel, _ = a.number("fuel")
	u.Memory, _ = a.number("memory")
	u.Calls, _ = a.number("calls")
	return &u
}

// value returns the answer as JSON: of a script, the result or the error; of other tools, the
// structured content, or else the text, which is decoded if JSON.
func (a *answer) value() []byte {
	structured, ok := wire.Get(a.result, "structuredContent")
	if _, script := a.script(); script {
		for _, name := range []string{"result", "error"} {
			if v, ok := wire.Get(structured, name); ok {
				return v
			}
		}
	}
	if ok && string(structured) != "null" {
		return structured
	}
	text := a.text()
	if json.Valid([]byte(text)) {
		return []byte(text)
	}
	return wire.Quote(text)
}

// texts returns the texts of the text blocks.
func (a *answer) texts() []string {
	content, _ := wire.Get(a.result, "content")
	blocks, _ := wire.Elements(content) // none if content is not an array
	var texts []string
	for _, block := range blocks {
		kind, _ := wire.GetString(block, "type")
		if text, ok := wire.GetString(block, "text"); ok && kind == "text" {
			texts = append(texts, text)
		}
	}
	return texts
}

func (a *answer) text() string { return strings.Join(a.texts(), "\n") }

// logs returns the log entries of a script.
func (a *answer) logs() []string {
	raw, _ := wire.Get(a.result, "structuredContent", "logs")
	var logs []string
	if jsonvalue.Unmarshal(raw, &logs) != nil {
		return nil
	}
	return logs
}

// calls returns the calls of a script as "server.tool". A name in wanted replaces a call with the
// same script name.
func (a *answer) calls(wanted []string) []string {
	spelt := map[string]string{}
	for _, w := range wanted {
		spelt[scriptName(w)] = w
	}
	raw, _ := wire.Get(a.result, "structuredContent", "toolCalls")
	list, _ := wire.Elements(raw)
	names := make([]string, 0, len(list))
	for _, call := range list {
		server, _ := wire.GetString(call, "server")
		tool, _ := wire.GetString(call, "tool")
		name := server + "." + tool
		if w, ok := spelt[scriptName(name)]; ok {
			name = w
		}
		names = append(names, name)
	}
	return names
}

func scriptName(name string) string {
	server, tool, _ := strings.Cut(name, ".")
	return abi.Ident(server) + "." + abi.Ident(tool)
}

// errorMessage returns the message of a failed tool or of a JSON-RPC error.
func (a *answer) errorMessage() (message string, failed bool) {
	if a.refused != nil {
		return a.refused.Message, true
	}
	_, message = a.failure()
	return message, a.isError()
}

// failure returns the class and the message of the error with which a script ended, "" for a
// success. Errors of other tools are of class tool.
func (a *answer) failure() (class, message string) {
	if !a.isError() {
		return "", ""
	}
	class, ok := wire.GetString(a.result, "structuredContent", "error", "type")
	if !ok {
		return string(abi.ErrTool), a.text()
	}
	message, _ = wire.GetString(a.result, "structuredContent", "error", "message")
	return class, message
}

// The limits of a report, in bytes.
const (
	maxOutput = 4 << 10 // of an answer
	maxCell   = 200     // of a value in a row
)

// resultOf returns the result of a check, given its answer or an error.
func (c *Check) resultOf(path string, a *answer, err error) report.Result {
	r := c.blankResult(path)
	var failed *failedError
	switch {
	case errors.As(err, &failed):
		r.Status, r.Problems = report.Failed, []report.Problem{{Message: failed.reason, Line: c.Line, Column: c.Column}}
	case err != nil:
		first, rest, _ := strings.Cut(err.Error(), "\n") // rest: the stderr of a server, for example
		r.Status, r.Problems = report.Broken, []report.Problem{{Message: first, Got: rest, Line: c.Line, Column: c.Column}}
		var b *BrokenError
		if errors.As(err, &b) && b.line > 0 {
			r.Problems[0].Line, r.Problems[0].Column = b.line, b.column
		}
	}
	if a == nil {
		return r
	}
	r.Duration = a.took
	if err != nil {
		return r
	}
	r.Logs, r.Output, r.Usage = a.logs(), a.output(), a.usage()
	if r.Problems = c.problems(a); len(r.Problems) > 0 {
		r.Status = report.Failed
	}
	return r
}

// blankResult returns the result of a check that has passed with nothing to report.
func (c *Check) blankResult(path string) report.Result {
	return report.Result{
		Name: c.Name, File: path, Line: c.Line, Column: c.Column, Phase: string(c.Phase), Tags: c.Tags, Status: report.Passed,
		Row: c.from.row.report(),
	}
}

// output returns the answer to a call, for people.
func (a *answer) output() string {
	if a.result == nil {
		return ""
	}
	text := a.text()
	if text == "" {
		text = string(a.value())
	}
	return text
}

// problems compares the answer with the expectations. A basic problem is reported alone,
// since no expectation can be met then.
func (c *Check) problems(a *answer) []report.Problem {
	if p := c.basicProblem(a); p != nil {
		p.Line, p.Column = c.Line, c.Column
		return []report.Problem{*p}
	}
	var problems []report.Problem
	for _, w := range c.wants {
		m := a.missingAnswer(w.key)
		if m == nil {
			m = w.match(a)
		}
		if m != nil {
			p := report.Of("expect."+w.key, m)
			p.Line, p.Column = w.line, w.column
			problems = append(problems, p)
		}
	}
	return problems
}

// basicProblem returns a problem that does not depend on any expectation, or nil.
func (c *Check) basicProblem(a *answer) *report.Problem {
	switch {
	case c.Server != "":
		return nil
	case a.refused != nil && !c.has("error_code", "error"):
		return &report.Problem{Message: a.refusal()}
	case len(a.unmocked) > 0:
		return &report.Problem{Expectation: "mock", Message: unmockedText(a.unmocked)}
	case a.cancelled || c.CancelAfter > 0:
		return nil
	case a.isError() && !c.refused && !c.has("is_error", "error_type", "error"):
		return &report.Problem{Message: "the tool failed", Got: a.text()}
	}
	return nil
}

// missingAnswer returns a mismatch if no answer exists for the expectation.
func (a *answer) missingAnswer(key string) *expect.Mismatch {
	switch {
	case a.handshake != nil || a.result != nil:
		return nil
	case a.refused != nil && key != "error_code" && key != "error" && key != "max_duration":
		return &expect.Mismatch{Message: a.refusal()}
	case a.cancelled && key != "cancelled_within" && key != "progress" && key != "max_duration":
		return &expect.Mismatch{Message: "the call was cancelled, so there is no answer"}
	}
	return nil
}

func (a *answer) refusal() string {
	return fmt.Sprintf("the call was refused: %s (JSON-RPC error %d)", a.refused.Message, a.refused.Code)
}

// plural returns a number and a noun, such as "2 files".
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// masked returns a result without secrets. The shown part of the answer is shortened only
// afterwards, so no part of a secret is left.
func masked(r report.Result, masker *config.Masker) report.Result {
	mask := masker.MaskCut // a Mismatch is shortened already
	r.Name, r.Output = mask(r.Name), display.Clip(mask(r.Output), maxOutput)
	r.Tags = slices.Clone(r.Tags)
	for i, tag := range r.Tags {
		r.Tags[i] = mask(tag)
	}
	r.Row.Cells = slices.Clone(r.Row.Cells)
	for i, cell := range r.Row.Cells {
		r.Row.Cells[i].Value = display.Clip(mask(cell.Value), maxCell)
	}
	logs := make([]string, len(r.Logs))
	for i, line := range r.Logs {
		logs[i] = mask(line)
	}
	r.Logs = logs
	problems := make([]report.Problem, len(r.Problems))
	for i, p := range r.Problems {
		p.Message, p.Path = mask(p.Message), mask(p.Path)
		p.Want, p.Got, p.Diff = mask(p.Want), display.Clip(mask(p.Got), maxOutput), mask(p.Diff)
		problems[i] = p
	}
	r.Problems = problems
	return r
}

// snapshot is an answer in a file below the folder of the file of checks.
type snapshot struct {
	name   string
	place  regular.Place
	ignore []pointer
}

// maxSnapshot is the size of the largest snapshot in bytes.
const maxSnapshot = 16 << 20

// readSnapshot reads true, or the name of the snapshot.
func readSnapshot(r *fileReader, s *config.Section, key string) (matcher, updater) {
	if r.planned != nil { // the name has values of this run now
		if r.planned.snapshot == nil {
			return nil, nil
		}
		snap := *r.planned.snapshot
		r.check.snapshot = &snap
		return snap.match(), nil
	}
	name := ""
	if s.IsString(key) {
		name, _ = s.Verbatim(key)
		if why := badSnapshotName(name); why != "" {
			s.Problem(key, "%s", why)
			return nil, nil
		}
	} else {
		var wanted bool
		if s.Bool(key, &wanted); !wanted {
			return nil, nil
		}
		name = snapshotName(r.check.Name)
		if c := r.check; c.Row > 0 && config.HasReferences(c.Name) { // the written name of all rows
			name = snapshotName(fmt.Sprintf("%s row %d", c.Name, c.Row))
		}
	}
	if owner := r.snapshots[strings.ToLower(name)]; owner != "" {
		remedy := `name this one: snapshot = "..."`
		if r.check.Row > 0 {
			remedy = `each row needs its own: put a column into its name, as in "{{city}}"`
		}
		s.Problem(key, "the snapshot %q is that of %s already (%s)", name, owner, remedy)
		return nil, nil
	}
	if r.snapshots == nil {
		r.snapshots = map[string]string{}
	}
	r.snapshots[strings.ToLower(name)] = r.check.label()
	snap := &snapshot{name: name, place: r.file.snapshotPlace(name)}
	r.check.snapshot = snap
	return snap.match(), nil
}

func (s *snapshot) match() matcher {
	return func(a *answer) *expect.Mismatch { return s.compare(a) }
}

// readSnapshotIgnore reads JSON pointers to members whose values do not matter.
func readSnapshotIgnore(r *fileReader, s *config.Section, key string) (matcher, updater) {
	for i, text := range s.Strings(key) {
		p, err := parsePointer(text)
		if err != nil {
			s.Problem(fmt.Sprintf("%s[%d]", key, i), "%v", err)
			continue
		}
		r.check.ignored = append(r.check.ignored, p)
	}
	return nil, nil
}

// maxSnapshotName is the length of the longest name of a snapshot.
const maxSnapshotName = 80

var (
	snapshotNames = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// deviceNames are names that Windows keeps for devices, with any ending.
	deviceNames = lazyregexp.New(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
)

// badSnapshotName returns why a name cannot be the name of a file on every system; "" for a good
// name.
func badSnapshotName(name string) string {
	switch {
	case len(name) > maxSnapshotName:
		return fmt.Sprintf("is longer than %d characters", maxSnapshotName)
	case !snapshotNames.MatchString(name):
		return "cannot name a snapshot (use letters, digits, _, - and ., and begin with a letter or digit)"
	case deviceNames.MatchString(name):
		return "is the name of a device on Windows (use another name)"
	}
	return ""
}

// snapshotName makes the name of a snapshot from the name of a check: the same letters and digits,
// with - between them. A hash is added if the name would be too long or empty.
func snapshotName(check string) string {
	var b strings.Builder
	for _, r := range check {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '_' || r == '.':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-._")
	if badSnapshotName(name) == "" {
		return name
	}
	const digits = 8
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(check)))[:digits]
	name = strings.Trim(name[:min(len(name), maxSnapshotName-digits-1)], "-._")
	if name == "" || deviceNames.MatchString(name) {
		name = "check"
	}
	return name + "-" + sum
}

// snapshotFolder returns the folder of the snapshots, relative to the folder of the file.
func (f *File) snapshotFolder() string {
	return strings.TrimSuffix(filepath.Base(f.Path), filepath.Ext(f.Path)) + ".snapshots"
}

// snapshotPlace returns the place of a snapshot, below the folder of the file even if the file may
// name files elsewhere.
func (f *File) snapshotPlace(name string) regular.Place {
	return regular.Place{Folder: filepath.Dir(f.Path), Name: filepath.Join(f.snapshotFolder(), name+".json")}
}

// compare compares an answer with the snapshot.
func (s *snapshot) compare(a *answer) *expect.Mismatch {
	want, err := s.place.Read(context.Background(), maxSnapshot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &expect.Mismatch{
			Message: fmt.Sprintf("there is no snapshot %s yet (--update writes it: look at it before you commit it)", s.place),
			Got:     string(s.document(a)),
		}
	case err != nil:
		return &expect.Mismatch{Message: fmt.Sprintf("the snapshot %s cannot be read: %v", s.place, reason(err))}
	}
	if !json.Valid(want) {
		return &expect.Mismatch{Message: fmt.Sprintf("the snapshot %s is not JSON (--update writes it again)", s.place)}
	}
	m := expect.Equal(s.hide(want), s.document(a))
	if m != nil {
		m.Message += fmt.Sprintf("; the snapshot is %s (--update accepts the answer)", s.place)
	}
	return m
}

// document returns the content of a snapshot for an answer: JSON with members sorted by name,
// without secrets. For a script, the content is the result or the error.
func (s *snapshot) document(a *answer) []byte {
	var doc wire.Object
	if _, script := a.script(); script {
		if class, message := a.failure(); class != "" { // without the place in the script, which changes with other lines
			var failure wire.Object
			failure.Text("type", class)
			failure.Text("message", message)
			doc.Raw("error", failure.Bytes())
		} else {
			doc.Raw("result", a.value())
		}
	} else {
		for _, name := range []string{"content", "structuredContent", "isError"} {
			if v, ok := wire.Get(a.result, name); ok {
				doc.Raw(name, v)
			}
		}
	}
	raw := doc.Bytes()
	if a.redact != nil {
		raw = a.redact(raw)
	}
	return s.hide(raw)
}

// hide returns JSON in canonical form: members sorted by name, encoded data replaced by its hash,
// and values that do not matter by a placeholder.
func (s *snapshot) hide(raw []byte) []byte {
	v, err := jsonvalue.Decode(raw)
	if err != nil {
		return raw // expect.Equal reports the fault
	}
	v = shortenData(v)
	for _, p := range s.ignore {
		v = p.replace(v, ignoredValue)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return raw
	}
	return b.Bytes()
}

// ignoredValue stands for a value in snapshot_ignore.
const ignoredValue = "(ignored)"

// maxSnapshotData is the size of the longest data that are kept unchanged, in characters.
const maxSnapshotData = 256

// shortenData replaces the data of images, sounds and resources, which are unreadable in a diff.
func shortenData(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = shortenData(v[i])
		}
	case map[string]any:
		_, typed := v["mimeType"]
		for name, sub := range v {
			if text, ok := sub.(string); ok && typed && (name == "data" || name == "blob") && len(text) > maxSnapshotData {
				v[name] = fmt.Sprintf("(%d characters, sha256 %x)", len(text), sha256.Sum256([]byte(text)))
			} else {
				v[name] = shortenData(sub)
			}
		}
	}
	return v
}

// write writes the answer to a check as its snapshot, if different. write reports whether a file
// was written.
func (s *snapshot) write(a *answer) (bool, error) {
	doc := s.document(a)
	if len(doc) > maxSnapshot {
		return false, fmt.Errorf("it has %d bytes, and at most %d are kept", len(doc), maxSnapshot)
	}
	before, err := s.place.Read(context.Background(), maxSnapshot)
	if err == nil && json.Valid(before) && expect.Equal(s.hide(before), doc) == nil {
		return false, nil
	}
	root, err := regular.OpenRoot(s.place.Folder)
	if err != nil {
		return false, err
	}
	defer root.Close()
	if err := root.Mkdir(filepath.Dir(s.place.Name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return true, s.place.Replace(doc, 0o644)
}

// updateSnapshot writes the snapshot of a check whose answer is suitable, and returns the result
// with the snapshot.
func (r *run) updateSnapshot(c *checkRun, before report.Result) (report.Result, error) {
	s := c.snapshot
	if s == nil || c.answer.result == nil || c.basicProblem(c.answer) != nil {
		return before, nil
	}
	changed, err := s.write(c.answer)
	if err != nil {
		err = broken(err, "the snapshot %s is not written: %v", s.place, reason(err))
	}
	if changed {
		r.wrote(s.place.String(), "a snapshot")
	}
	return c.resultOf(c.fileRun.path, c.answer, err), err
}

// staleSnapshots returns the snapshots of the file without a check.
func (f *File) staleSnapshots() []string {
	folder := filepath.Join(filepath.Dir(f.Path), f.snapshotFolder())
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // no snapshot exists
	}
	used := map[string]bool{}
	for _, c := range f.Checks {
		if c.snapshot != nil {
			used[strings.ToLower(c.snapshot.name)] = true
		}
	}
	var stale []string
	for _, e := range entries {
		name, isJSON := strings.CutSuffix(e.Name(), ".json")
		if isJSON && !e.IsDir() && !used[strings.ToLower(name)] {
			stale = append(stale, filepath.Join(folder, e.Name()))
		}
	}
	slices.Sort(stale)
	return stale
}
