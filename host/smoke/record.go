package smoke

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// record runs the script of a check against the upstreams and records their answers.
func (l *live) record(ctx context.Context, c *Check) (*answer, []cassette.Interaction, error) {
	h, err := l.start()
	if err != nil {
		return nil, nil, err
	}
	def, err := c.definition(l.scripts.savedTools)
	if err != nil {
		return nil, nil, err
	}
	if err := l.waitForServers(ctx, h, def.Name); err != nil {
		return nil, nil, err
	}
	var recorder *cassette.Recorder
	composer := h.Composer(func(up compose.Upstreams) compose.Upstreams {
		recorder = cassette.NewRecorder(up, func(text []byte) []byte { return []byte(l.mask(string(text))) })
		return recorder
	})
	var run asked
	a, err := runScript(run.within(ctx), c, l.file, func(ctx context.Context, call route.Call) []byte {
		return composer.CallSaved(ctx, def, call).Result
	})
	a.run = run.record()
	return a, recorder.Interactions(), err
}

// recordings are the interactions recorded in a run, by path of the cassette.
type recordings struct {
	mu     sync.Mutex
	byPath map[string]*recording
	order  []string
}

// recording holds the interactions recorded for a cassette.
type recording struct {
	at   regular.Place
	made []cassette.Interaction
}

// add adds the interactions of a check. Of a call that another check has recorded, a single answer
// is enough, since each check starts the cassette from the beginning.
func (r *recordings) add(at regular.Place, made []cassette.Interaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byPath == nil {
		r.byPath = map[string]*recording{}
	}
	path := at.String()
	rec := r.byPath[path]
	if rec == nil {
		rec = &recording{at: at}
		r.byPath[path] = rec
		r.order = append(r.order, path)
	}
	rec.made = merge(rec.made, made)
}

// merge returns the interactions of a, and the interactions of b that a lacks for a run recorded as
// b.
func merge(a, b []cassette.Interaction) []cassette.Interaction {
	spare := map[string]int{}
	for _, i := range a {
		spare[callKey(i)]++
	}
	for _, i := range b {
		if key := callKey(i); spare[key] > 0 {
			spare[key]--
			continue
		}
		a = append(a, i)
	}
	return a
}

// callKey returns a key for the call of an interaction.
func callKey(i cassette.Interaction) string {
	var params any
	if jsonvalue.Unmarshal(i.Params, &params) == nil { // otherwise the interaction is for any params
		if sorted, err := json.Marshal(params); err == nil {
			return i.Server + "." + i.Tool + string(sorted)
		}
	}
	return i.Server + "." + i.Tool
}

// write writes the cassettes. Existing interactions are kept after the new interactions, since
// checks that did not run may need them, except interactions for the same calls. A cassette in
// complete is replaced. Each written file is passed to wrote.
func (r *recordings) write(ctx context.Context, complete map[string]bool, wrote func(path, content string)) error {
	var errs []error
	for _, path := range r.order {
		rec := r.byPath[path]
		all := rec.made
		if !complete[path] {
			old, err := cassette.Read(ctx, rec.at)
			if err == nil {
				all = merge(all, old.Interactions())
			} else if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("%s is not overwritten: %w", path, err))
				continue
			}
		}
		made, err := cassette.New(all...)
		if err == nil {
			err = made.Write(ctx, rec.at)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wrote(path, plural(len(all), "answer"))
	}
	return errors.Join(errs...)
}

// lockFile returns the lock for a check of a server; "" for none.
func (c *Check) lockFile() string {
	for _, w := range c.wants {
		if w.lock != "" {
			return w.lock
		}
	}
	return ""
}

// writeLock writes the lock of a check of a server, if the lock is missing or out of date.
func (r *run) writeLock(ctx context.Context, c *checkRun) error {
	path := c.lockFile()
	if path == "" {
		return nil
	}
	r.locking.Lock() // several checks may share a lock
	defer r.locking.Unlock()
	changed, err := writeLock(ctx, c.fileRun.file.place(path), c.answer)
	if err != nil {
		return broken(err, "%s is not written: %v", path, err)
	}
	if changed {
		r.wrote(path, fmt.Sprintf("definitions of %q", c.Server))
	}
	return nil
}

// edit replaces a part of a file.
type edit struct {
	at   config.Span
	text string
}

// updates returns the edits that would make the expectations meet the answer. Other problems are
// left, with the reason.
func (c *checkRun) updates(problems []report.Problem) (edits []edit, left []report.Problem) {
	for _, p := range problems {
		at := slices.IndexFunc(c.wants, func(w want) bool { return "expect."+w.key == p.Expectation })
		if at < 0 {
			left = append(left, p)
			continue
		}
		e, err := c.update(c.wants[at])
		if err != nil {
			p.Message += " (--update leaves it: " + err.Error() + ")"
			left = append(left, p)
			continue
		}
		edits = append(edits, e)
	}
	return edits, left
}

// update returns the edit of an expectation.
func (c *checkRun) update(w want) (edit, error) {
	at, err := c.target(w)
	if err != nil {
		return edit{}, err
	}
	text, err := w.update(c.answer)
	if err == nil && c.fileRun.mask(text) != text {
		err = notUpdatable("the answer contains a secret")
	}
	return edit{at, text}, err
}

// target returns the part of the file that an update of an expectation replaces.
func (c *checkRun) target(w want) (config.Span, error) {
	written := string(c.fileRun.file.data[w.written.From:w.written.To])
	switch {
	case w.update == nil:
		return config.Span{}, notUpdatable("it can only be written by hand")
	case written == "":
		return config.Span{}, notUpdatable("it is a table of several lines; write it as expect.%s = …", w.key)
	case c.Row > 0:
		return c.cell(written)
	case strings.Contains(strings.ReplaceAll(written, "$${", ""), "${"):
		return config.Span{}, notUpdatable("it contains a variable")
	case config.HasReferences(written):
		return config.Span{}, notUpdatable("it contains a reference")
	}
	return w.written, nil
}

// cell returns the cell of the check's row for an expectation's reference, if no other key refers
// to the cell.
func (c *checkRun) cell(written string) (config.Span, error) {
	column, whole := config.ReferenceIn(strings.Trim(written, `"'`))
	if !config.HasReferences(written) {
		return config.Span{}, notUpdatable("all rows share it; give the rows a column for it")
	}
	at, inline := c.from.row.cells[column]
	switch {
	case !whole || !c.from.row.has(column):
		return config.Span{}, notUpdatable("it contains a reference")
	case !inline:
		return config.Span{}, notUpdatable("its value is in the file of the rows; change it there")
	case c.uses[column] != 1:
		return config.Span{}, notUpdatable("other keys of the check use {{%s}} too", column)
	case strings.Contains(strings.ReplaceAll(string(c.fileRun.file.data[at.From:at.To]), "$${", ""), "${"):
		return config.Span{}, notUpdatable("its value contains a variable")
	case at.From == at.To:
		return config.Span{}, notUpdatable("its value is a table of several lines")
	}
	return at, nil
}

// apply applies edits to data. The edits must not overlap.
func apply(data []byte, edits []edit) []byte {
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.at.From, b.at.From) })
	var out bytes.Buffer
	from := 0
	for _, e := range edits {
		out.Write(data[from:e.at.From])
		out.WriteString(e.text)
		from = e.at.To
	}
	out.Write(data[from:])
	return out.Bytes()
}

// rewrite applies edits to the file, if the file has not changed since the reading and the new text
// can be parsed.
func (f *fileRun) rewrite(opts LoadOptions, edits []edit) error {
	now, err := config.ReadFile(opts.Load, f.path)
	if err != nil {
		return fmt.Errorf("not updated: %w", err)
	}
	if !bytes.Equal(now, f.file.data) {
		return fmt.Errorf("%s is not updated: %w", f.path, errChanged)
	}
	text := apply(now, edits)
	if _, err := Parse(f.path, text, opts); err != nil {
		return fmt.Errorf("%s is not updated: its new text cannot be parsed: %w", f.path, err)
	}
	if err := (regular.Place{Name: f.path}).Replace(text, 0o644); err != nil {
		return fmt.Errorf("%s is not updated: %w", f.path, err)
	}
	return nil
}

// updateError says why an answer cannot be written as an expectation.
type updateError struct{ reason string }

func (e *updateError) Error() string { return e.reason }

func notUpdatable(format string, args ...any) error {
	return &updateError{fmt.Sprintf(format, args...)}
}

// tomlValue writes a JSON value as TOML, on a single line.
func tomlValue(raw []byte) (string, error) {
	var b strings.Builder
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := writeTOML(&b, d); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeTOML(b *strings.Builder, d *jsontext.Decoder) error {
	token, err := d.ReadToken()
	if err != nil {
		return notUpdatable("the answer is not JSON")
	}
	switch token.Kind() {
	case '"':
		b.WriteString(tomlString(token.String()))
	case '0':
		return writeNumber(b, token.String())
	case 't', 'f':
		b.WriteString(token.String())
	case 'n':
		return notUpdatable("the answer contains null, which TOML does not have (write it as JSON, under the key with _json at the end)")
	case '[':
		return writeList(b, d)
	case '{':
		return writeTable(b, d)
	}
	return nil
}

func writeList(b *strings.Builder, d *jsontext.Decoder) error {
	b.WriteByte('[')
	for i := 0; d.PeekKind() != ']'; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := writeTOML(b, d); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	_, err := d.ReadToken()
	return err
}

func writeTable(b *strings.Builder, d *jsontext.Decoder) error {
	seen := map[string]bool{}
	b.WriteByte('{')
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return notUpdatable("the answer is not JSON")
		}
		if key := name.String(); !seen[key] {
			seen[key] = true
			b.WriteString(map[bool]string{true: " ", false: ", "}[len(seen) == 1] + tomlKey(key) + " = ")
		} else {
			return notUpdatable("the answer contains an object with two members of the same name")
		}
		if err := writeTOML(b, d); err != nil {
			return err
		}
	}
	if len(seen) > 0 {
		b.WriteByte(' ')
	}
	b.WriteByte('}')
	_, err := d.ReadToken()
	return err
}

func writeNumber(b *strings.Builder, text string) error {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) {
			return notUpdatable("the answer contains the number %s, which TOML does not have", text)
		}
	} else if n, err := strconv.ParseInt(text, 10, 64); err != nil {
		return notUpdatable("the answer contains the number %s, which TOML does not have", text)
	} else {
		text = strconv.FormatInt(n, 10) // -0 would be read as a different value
	}
	b.WriteString(text)
	return nil
}

func tomlKey(key string) string {
	bare := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
	}
	if key != "" && strings.IndexFunc(key, func(r rune) bool { return !bare(r) }) < 0 {
		return key
	}
	return quoted(key) // nothing in a key is expanded
}

// tomlString returns text as a TOML string on a line. ${ becomes $${ and {{ becomes \{{, which
// would otherwise be a variable or a reference.
func tomlString(text string) string { return quoted(protected(text)) }

// protected escapes the beginnings of variables and references.
func protected(text string) string {
	return strings.NewReplacer("${", "$${", "{{", `\{{`).Replace(text)
}

// quoted returns text between quotes, with TOML's escapes.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	writeEscaped(&b, text, false)
	b.WriteByte('"')
	return b.String()
}

// tomlText returns text as a TOML string, on several lines if the text has several.
func tomlText(text string) string {
	if strings.Count(text, "\n") < 2 || strings.Contains(text, "\r") {
		return tomlString(text)
	}
	var b strings.Builder
	b.WriteString("\"\"\"\n")
	writeEscaped(&b, protected(text), true)
	b.WriteString(`"""`)
	return b.String()
}

func writeEscaped(b *strings.Builder, text string, lines bool) {
	for _, r := range text {
		switch {
		case r == '\n' && lines:
			b.WriteByte('\n')
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xFFFF && unicode.In(r, unicode.C):
			fmt.Fprintf(b, `\U%08X`, r)
		case unicode.In(r, unicode.C, unicode.Zl, unicode.Zp): // including characters that only change the display
			fmt.Fprintf(b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
}

func tomlStrings(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = tomlString(t)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// grouped writes a number with its digits grouped: 50_000_000.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	var parts []string
	for len(text) > 3 {
		parts = append(parts, text[len(text)-3:])
		text = text[:len(text)-3]
	}
	parts = append(parts, text)
	slices.Reverse(parts)
	return strings.Join(parts, "_")
}

// asJSONText updates an expectation in the form of JSON text.
func asJSONText(key string) updater {
	if key != "result" {
		return nil
	}
	return func(a *answer) (string, error) {
		var compact bytes.Buffer
		if err := json.Compact(&compact, a.value()); err != nil {
			return "", notUpdatable("the answer is not JSON")
		}
		text := strings.ReplaceAll(compact.String(), "{{", `\\{{`) // in a string, JSON has no {{ elsewhere
		if !strings.ContainsAny(text, "'\n") {
			return "'" + text + "'", nil
		}
		return quoted(text), nil
	}
}

// memberNames returns the names of the members of a JSON object, in order.
func memberNames(raw []byte) []string {
	var names []string
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return names
		}
		text := name.String()
		if err := d.SkipValue(); err != nil {
			return names
		}
		if !slices.Contains(names, text) {
			names = append(names, text)
		}
	}
	return names
}

var errChanged = errors.New("it has changed since it was read (run again)")
