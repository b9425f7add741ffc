package smoke

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// Check is a [[check]] of a file.
type Check struct {
	// Name is the name in reports; never "".
	Name string
	// Line and Column are where the check begins, from 1.
	Line, Column int
	// Server is the upstream whose handshake and lists are checked; "" for a check of a call.
	Server string
	// Call is the public name of the tool; "" if Code gives the name.
	Call string
	// Code is the script to run; the zero value for none.
	Code  Code
	place func(path string) regular.Place // of the file
	// Params are the arguments, and Meta is the _meta of the request: raw JSON objects.
	// Meta may be nil.
	Params, Meta []byte
	// Mock answers the script's calls. Without a Mock, the upstreams answer.
	Mock *Mock
	// Timeout limits the check; 0 means the timeout of the file.
	Timeout time.Duration
	// CancelAfter is when the call is cancelled; 0 means never.
	CancelAfter time.Duration
	// Approve is the decision of a person about calls for which policy says "ask": "allow" or
	// "deny"; "" if the check does not expect the question.
	Approve string
	// Skip is why the check is skipped; "" for a check that runs.
	Skip string
	// Phase is the time of the check, Tags are the tags of the check and its file, and Row is the
	// number of its row, from 1; 0 for none.
	Phase Phase
	Tags  []string
	Row   int

	captures []capture
	retry    retry
	needs    []string       // the captured values in its references
	uses     map[string]int // the number of references to each value
	from     *source

	number int // among the tables of its phase, from 1
	wants  []want
	within time.Duration // of cancelled_within

	schemas  []string // files with JSON Schemas
	refused  bool     // policy has to ask for the call or deny the call
	snapshot *snapshot
	ignored  []pointer // of snapshot_ignore
}

// Code says where a script is.
type Code struct {
	Inline string // the script itself
	File   string // path of a script, or of a definition in a .json file
	Saved  string // name of a saved tool
}

// none reports whether c has no script.
func (c Code) none() bool { return c == Code{} }

// label returns the name of the check in messages about the file.
func (c *Check) label() string { return fmt.Sprintf("%s %q", c.Phase.key(), c.Name) }

// has reports whether the check has an expectation with any of the keys.
func (c *Check) has(keys ...string) bool {
	for _, w := range c.wants {
		for _, k := range keys {
			if w.key == k {
				return true
			}
		}
	}
	return false
}

var checkAliases = map[string]string{
	"tool": "call", "args": "params", "arguments": "params", "expected": "expect", "want": "expect", "script": "code",
	"mocks": "mock", "cassette": "mock", "upstream": "server", "title": "name", "description": "name", "tag": "tags",
	"captures": "capture", "approval": "approve", "extract": "capture", "retries": "retry", "row": "rows", "table": "rows", "data": "rows", "cases": "rows",
}

// readCheck reads a check from a table without references.
func (r *fileReader) readCheck(s *config.Section, c *Check) {
	r.check = c
	c.Code = r.code(s)
	if c.kind(s) == onServer {
		for _, key := range []string{"params", "meta", "mock", "cancel_after", "approve"} {
			if s.Has(key) {
				s.Problem(key, "has no meaning for the check of a server")
			}
		}
		s.Know("params", "meta", "mock", "cancel_after", "approve")
	} else {
		r.request(s, c)
	}
	s.Duration("timeout", &c.Timeout, minTime, maxTime)
	c.skip(s)
	c.readRetry(s)
	r.readCaptures(s, c)
	if e := s.Section("expect"); e != nil {
		r.expectations(e, c)
	}
	if c.CancelAfter > 0 && !c.has("cancelled_within") {
		c.wants = append(c.wants, want{key: "cancelled_within", line: c.Line, column: c.Column, match: cancelledWithin(defaultCancelled)})
	}
	if !s.Has("cancel_after") && c.has("cancelled_within") {
		s.Problem("expect.cancelled_within", "has no meaning without cancel_after (say when the call is cancelled)")
	}
	if c.snapshot != nil {
		c.snapshot.ignore = c.ignored
	} else if c.ignored != nil && s.Missing("expect.snapshot") == nil {
		s.Problem("expect.snapshot_ignore", "has no meaning without snapshot")
	}
	s.Close(checkAliases)
}

// kind returns the kind of the check. A check with no subject, or with too many, is reported.
func (c *Check) kind(s *config.Section) kinds {
	switch {
	case s.Has("server") && (s.Has("call") || s.Has("code")):
		s.Problem("server", "cannot be combined with call or code (make two checks of it)")
	case !s.Has("server") && !s.Has("call") && !s.Has("code"):
		s.Problem("", "has neither call nor code nor server (say what to check)")
	}
	for _, key := range []string{"server", "call"} {
		if text, ok := s.Verbatim(key); ok && text == "" {
			s.Problem(key, "is empty")
		}
	}
	if s.Has("server") {
		return onServer
	}
	return onCall
}

// request reads the tool and the arguments of a call.
func (r *fileReader) request(s *config.Section, c *Check) {
	if params := s.Object("params"); params != nil {
		c.Params = params
	}
	c.Meta = s.Object("meta")
	c.Mock = r.mock(s)
	s.Duration("cancel_after", &c.CancelAfter, minTime, maxTime)
	c.readApprove(s)
	if name := c.toolName(); !c.Code.none() && name != "" && tools.CheckName(name) != nil {
		s.Problem(cmp.Or(map[bool]string{true: "call"}[c.Call != ""], "code"),
			"%q cannot name a composite tool (use up to 64 letters, digits, _ and -)", name)
	}
}

// toolName returns the name of the check's script; "" if the definition in its file has the name.
func (c *Check) toolName() string {
	if c.Call != "" || c.Code.Saved != "" {
		return cmp.Or(c.Call, c.Code.Saved)
	}
	switch filepath.Ext(c.Code.File) {
	case ".json":
		return ""
	case "":
		return fmt.Sprintf("%s_%d", c.Phase.key(), c.number)
	}
	return strings.TrimSuffix(filepath.Base(c.Code.File), filepath.Ext(c.Code.File))
}

// code reads the reference to a script. A name with an extension is a file, text that cannot be a
// name is a script, and any other name is a saved tool.
func (r *fileReader) code(s *config.Section) Code {
	text, ok := s.Verbatim("code")
	switch ext := filepath.Ext(text); {
	case !ok:
	case strings.TrimSpace(text) == "":
		s.Problem("code", "is empty (name a script's file or a saved tool, or write the script)")
	case strings.Contains(text, "\n"):
		return Code{Inline: text}
	case ext == ".star" || ext == ".json":
		return Code{File: r.path(s, "code", text)}
	case strings.ContainsAny(text, " \t(="):
		return Code{Inline: text}
	case strings.ContainsAny(text, `/\`):
		return Code{File: r.path(s, "code", text)}
	case tools.CheckName(text) == nil:
		return Code{Saved: text}
	default:
		s.Problem("code", "%q is neither a file (NAME.star, NAME.json) nor the name of a saved tool nor a script", text)
	}
	return Code{}
}

// skip reads whether the check is skipped: true, or the reason.
func (c *Check) skip(s *config.Section) {
	if s.IsString("skip") {
		c.Skip, _ = s.String("skip")
		return
	}
	skip := false
	s.Bool("skip", &skip)
	if skip {
		c.Skip = "its file says so"
	}
}

// hint suggests which of the known names was meant.
func hint(name string, known []string) string {
	if near := nearest.Names(name, known); near != nil {
		return " (did you mean " + strings.Join(near, ", ") + "?)"
	}
	if len(known) > 0 {
		return " (there are " + strings.Join(known, ", ") + ")"
	}
	return ""
}

// Phase says when a check runs.
type Phase string

// The phases, in their order.
const (
	Setup    Phase = "setup" // before the checks of the file
	Main     Phase = ""
	Teardown Phase = "teardown" // after them, whatever has happened
)

// key returns the key of the tables of a phase.
func (p Phase) key() string { return cmp.Or(string(p), "check") }

// source is the table of a check.
type source struct {
	section *config.Section
	phase   Phase
	index   int // among the tables of the phase
	order   int // among all tables of the file, as they run
	row     row
	again   bool // some of its values become known only later
}

// readFilled reads a check, as far as its values are known before the run.
func (r *fileReader) readFilled(from *source) *Check {
	c := &Check{}
	s := from.section.Fill(r.filling(from, c, func(name string) ([]byte, error) {
		return nil, &captureError{name, r.file.captures[name].check, notYet}
	}))
	r.begin(s, from, c)
	for _, key := range []string{"server", "call", "mock", "tags", "retry", "expect.snapshot"} {
		var captured *captureError
		if missing := s.Missing(key); missing != nil && errors.As(missing, &captured) && (key != "mock" || s.IsString(key)) {
			s.Problem(key, "cannot have a captured value (only variables and values of rows)")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.uses)) {
		if at := r.file.captures[name]; at != nil && at.order >= from.order && !from.row.has(name) {
			s.Problem("", "%v", r.unknown(from, name))
		}
	}
	from.again = s.Missing("") != nil
	r.readCheck(s, c)
	return c
}

// has reports whether the row has a column.
func (r row) has(name string) bool {
	_, ok := r.values[name]
	return ok
}

// label returns the name of the table in messages about the file: the written name.
func (from *source) label() string {
	c := Check{Phase: from.phase}
	c.Name, _ = from.written("name")
	c.Server, _ = from.written("server")
	c.Call, _ = from.written("call")
	c.setName(from.index)
	return c.label()
}

// written returns the string under a key of the table, as written.
func (from *source) written(key string) (string, bool) {
	if !from.section.IsString(key) {
		return "", false
	}
	return from.section.Verbatim(key)
}

// setName names a nameless check by its index in its phase.
func (c *Check) setName(index int) {
	c.Name = cmp.Or(c.Name, c.Call, c.Server, fmt.Sprintf("%s %d", c.Phase.key(), index+1))
}

// begin reads the name and the position of a check. A name with unknown values stays as written.
// Names are keys: variables are not expanded there.
func (r *fileReader) begin(s *config.Section, from *source, c *Check) {
	*c = Check{
		place: r.file.place, Params: []byte("{}"), within: defaultCancelled, number: from.index + 1,
		Phase: from.phase, Row: from.row.number, from: from, uses: c.uses, needs: c.needs,
	}
	c.Line, c.Column = s.Place("")
	for key, to := range map[string]*string{"name": &c.Name, "server": &c.Server, "call": &c.Call} {
		text, _ := s.Verbatim(key)
		raw, _ := from.written(key)
		*to = cmp.Or(text, raw)
	}
	c.setName(from.index)
	if c.Row > 0 && !config.HasReferences(from.label()) {
		c.Name += fmt.Sprintf(" (row %d)", c.Row)
	}
	s.Know("rows")
	if c.Phase == Main {
		c.Tags = slices.Compact(append(slices.Clone(r.file.tags), readTags(s, "tags")...))
	}
}

// ready returns the check as run: with the values that other checks have captured. The error is a
// *BrokenError.
func (f *File) ready(ctx context.Context, c *Check, captured func(name string) ([]byte, error), hide func(...string)) (*Check, error) {
	if !c.from.again {
		return c, nil
	}
	r := &fileReader{opts: f.reader.opts, file: f, dir: f.reader.dir, planned: c}
	r.opts.Load.Context = ctx
	filled := &Check{}
	var missing *config.Problem
	secrets, err := c.from.section.Reread(r.filling(c.from, filled, captured), func(s *config.Section) {
		r.begin(s, c.from, filled)
		if missing = s.Missing(""); missing == nil {
			r.readCheck(s, filled)
		}
	})
	hide(secrets...)
	switch {
	case missing != nil:
		return c, brokenAt(f.explain(missing))
	case err != nil:
		return c, broken(err, "with the values of this run, the check is wrong: %v", err)
	}
	if err := r.checkServer(filled); err != nil {
		return c, brokenAt(err)
	}
	return filled, nil
}

// capture is a value for later checks.
type capture struct {
	name         string
	root         string         // "result", "text", or "" for the whole answer
	pointer      pointer        // into root; none for the whole root
	written      string         // root and pointer, as in the file
	find         *regexp.Regexp // nil: the value itself
	secret       bool
	line, column int
}

// producer is the check that captures a value.
type producer struct {
	order, line int    // of the check's table
	check       *Check // nil until the check has been read
}

// readCaptures reads the captures of a check.
func (r *fileReader) readCaptures(s *config.Section, c *Check) {
	table := s.Section("capture")
	if table == nil {
		return
	}
	if c.Row > 0 {
		s.Problem("capture", "has no meaning with rows (each row would capture another value)")
	}
	for _, name := range table.Keys() {
		if !config.IsReferenceName(name) {
			table.Problem(name, "is not a name that a reference can have (use letters, digits, _ and -, and begin with a letter)")
			continue
		}
		if _, taken := r.file.vars[name]; taken {
			table.Problem(name, "is also the name of a variable (give one of them another name)")
		}
		made := capture{name: name, secret: config.LooksSecret(name)}
		made.line, made.column = table.Place(name)
		if !table.IsTable(name) {
			made.written, _ = table.String(name)
			made.from(table, name, c)
		} else if sub := table.Section(name); sub != nil {
			made.details(sub, c)
		}
		if n := len(made.pointer); n > 0 && config.LooksSecret(made.pointer[n-1]) {
			made.secret = true
		}
		c.captures = append(c.captures, made)
	}
}

// details reads a capture in the form of a table.
func (p *capture) details(s *config.Section, c *Check) {
	p.written = "text"
	if s.Has("from") {
		p.written, _ = s.String("from")
	}
	p.from(s, "from", c)
	s.Bool("secret", &p.secret)
	if text, ok := s.Verbatim("regex"); ok {
		find, err := regexp.Compile(text)
		if err != nil {
			s.Problem("regex", "is not a regular expression: %v", err)
		}
		p.find = find
	}
	s.Close(map[string]string{"path": "from", "pointer": "from", "pattern": "regex", "regexp": "regex", "match": "regex"})
}

// from splits the place of a value in an answer.
func (p *capture) from(s *config.Section, key string, c *Check) {
	root, _, nested := strings.Cut(p.written, "/")
	p.root = root
	switch {
	case root == "text" && !nested, root == "result":
		if c.Server != "" {
			s.Problem(key, `has no meaning for the check of a server (want a JSON pointer such as "/serverInfo/version")`)
		}
	case root != "" || !nested:
		s.Problem(key, `has to be "text", "result", "result/…", or a JSON pointer such as "/content/0/text"`)
	}
	if nested {
		var err error
		if p.pointer, err = parsePointer(p.written[len(root):]); err != nil {
			s.Problem(key, "%v", err)
		}
	}
}

// value returns the value in an answer as JSON, or why the answer has no value.
func (p *capture) value(a *answer) (raw []byte, problem string) {
	switch p.root {
	case "text":
		raw = wire.Quote(a.text())
	case "result":
		raw = a.value()
	default:
		if raw = a.result; a.handshake != nil {
			raw = a.handshake
		}
	}
	raw, at, ok := p.pointer.find(raw)
	if !ok {
		above := cmp.Or(p.root+p.pointer[:at].String(), "the whole answer")
		why := fmt.Sprintf("%s has no %q", above, p.pointer[at])
		if _, _, inResult := p.pointer.find(a.value()); p.root == "" && inResult {
			why += fmt.Sprintf("; its result has it: write %q", "result"+p.written)
		}
		return nil, fmt.Sprintf("the answer has nothing at %s (%s)", p.written, why)
	}
	if p.find == nil {
		return raw, ""
	}
	text, ok := wire.Text(raw)
	if !ok {
		text = string(raw)
	}
	found := p.find.FindStringSubmatch(text)
	switch {
	case found == nil:
		return nil, "nothing there matches the regular expression"
	case len(found) > 1:
		return wire.Quote(found[1]), ""
	}
	return wire.Quote(found[0]), ""
}

// capture stores the captured values of a check's answer, and returns a problem for each missing
// value.
func (c *checkRun) capture() []report.Problem {
	var problems []report.Problem
	for _, p := range c.captures {
		raw, problem := p.value(c.answer)
		if problem != "" {
			problems = append(problems, report.Problem{
				Expectation: "capture." + p.name, Message: problem, Line: p.line, Column: p.column,
				Got: string(c.answer.value()),
			})
			continue
		}
		secrets := secretTexts(p.name, raw)
		if p.secret {
			secrets = secretOf(raw)
		}
		c.fileRun.masker.Add(secrets...)
		c.fileRun.captured.set(p.name, raw)
	}
	return problems
}

// The bounds of the rows of a check.
const (
	maxRows     = 10_000
	maxRowsFile = 4 << 20 // bytes
)

// rowsSuffix is the suffix of TOML files with rows.
const rowsSuffix = ".rows.toml"

// row is the data for a result of a check with rows.
type row struct {
	number int // from 1; 0: the check has no rows
	values map[string]value
	cells  map[string]config.Span // where values are in the file of checks
	// columns are the columns of all rows of the check.
	columns map[string]bool
}

// report returns the row for reports. Secrets are not masked.
func (r row) report() report.Row {
	made := report.Row{Number: r.number}
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		v := r.values[name]
		text, ok := wire.Text(v.raw)
		if !ok || json.Valid([]byte(text)) { // a text such as 5 has quotes, to differ from a number
			text = string(v.raw)
		}
		if v.err == nil {
			made.Cells = append(made.Cells, report.Cell{Name: name, Value: text})
		}
	}
	return made
}

// rows returns the rows of a check; a single row without a number for a check without rows.
func (r *fileReader) rows(s *config.Section) []row {
	var rows []row
	switch {
	case !s.Has("rows"):
		return []row{{}}
	case s.IsString("rows"):
		rows = r.rowsInFile(s)
	case s.IsArray("rows"):
		for i, table := range s.Sections("rows") {
			rows = append(rows, r.inlineRow(table, i+1))
		}
		if len(rows) == 0 {
			s.Problem("rows", "is empty (write a table for each row)")
		}
	default:
		s.Know("rows")
		s.Problem("rows", `has to be an array of tables, or the name of a file: "cases.csv"`)
	}
	if len(rows) > maxRows {
		s.Problem("rows", "has %d rows, and %d are allowed", len(rows), maxRows)
		rows = rows[:1]
	}
	columns := map[string]bool{}
	for i := range rows {
		rows[i].columns = columns
		for name := range rows[i].values {
			columns[name] = true
		}
	}
	return rows
}

func (r *fileReader) inlineRow(s *config.Section, number int) row {
	filled := s.Fill(config.Filling{Value: noReference})
	made := row{number: number, values: map[string]value{}, cells: map[string]config.Span{}}
	for _, name := range s.Keys() {
		if missing := filled.Missing(name); missing != nil {
			made.values[name] = value{err: missing.Err}
			continue
		}
		raw := filled.JSON(name)
		made.values[name], made.cells[name] = value{raw: raw}, s.Written(name)
		s.Hide(secretTexts(name, raw)...)
	}
	return made
}

// rowsInFile reads a file of rows, and reports the faults of the file.
func (r *fileReader) rowsInFile(s *config.Section) []row {
	name, ok := s.String("rows")
	if !ok {
		return nil
	}
	if name == "" {
		s.Problem("rows", `is empty (name a file: "cases.csv")`)
		return nil
	}
	path := r.path(s, "rows", name)
	if path == "" {
		return nil
	}
	r.file.rowFiles = append(r.file.rowFiles, path)
	data, err := r.file.place(path).Read(r.context(), maxRowsFile)
	if err != nil {
		s.Problem("rows", "%s cannot be read: %v", name, reason(err))
		return nil
	}
	tables, err := parseRows(name, data)
	if err == nil && len(tables) == 0 {
		err = errors.New("has no rows")
	}
	if err != nil {
		s.Problem("rows", "%s %v", name, err)
		return nil
	}
	var rows []row
	for i, table := range tables {
		made := row{number: i + 1, values: map[string]value{}}
		for column, raw := range table {
			made.values[column] = value{raw: raw}
			s.Hide(secretTexts(column, raw)...)
		}
		rows = append(rows, made)
	}
	return rows
}

// parseRows parses the content of a file of rows: CSV with a header, a JSON array of
// objects, or TOML tables [[row]].
func parseRows(name string, data []byte) ([]map[string]json.RawMessage, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch ext := filepath.Ext(name); {
	case ext == ".csv":
		return parseCSV(data)
	case ext == ".json":
		var rows []map[string]json.RawMessage
		err := json.Unmarshal(data, &rows)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			return nil, fmt.Errorf("is not JSON: %w, at byte %d", err, syntax.Offset)
		}
		if err != nil {
			return nil, errors.New("is not a JSON array of objects")
		}
		return rows, nil
	case strings.HasSuffix(name, rowsSuffix):
		return parseTOMLRows(data)
	case ext == ".toml":
		return nil, fmt.Errorf("would be taken for a file of checks (call it %s)", strings.TrimSuffix(filepath.Base(name), ext)+rowsSuffix)
	}
	return nil, errors.New("has to be a file *.csv, *.json or *" + rowsSuffix)
}

// parseCSV reads CSV (RFC 4180). The first record names the columns. A cell with JSON has the JSON
// value, and any other cell is text.
func parseCSV(data []byte) ([]map[string]json.RawMessage, error) {
	in := csv.NewReader(bytes.NewReader(data))
	columns, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("is not CSV: %w", err)
	}
	seen := map[string]bool{}
	for i, column := range columns {
		columns[i] = strings.TrimSpace(column)
		if column = columns[i]; !config.IsReferenceName(column) {
			return nil, fmt.Errorf("has the column %q, which no reference can name (use letters, digits, _ and -, and begin with a letter)", column)
		}
		if seen[column] {
			return nil, fmt.Errorf("has two columns %q", column)
		}
		seen[column] = true
	}
	var rows []map[string]json.RawMessage
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("is not CSV: %w", err)
		}
		row := map[string]json.RawMessage{}
		for i, cell := range cells {
			row[columns[i]] = config.ValueOf(cell)
		}
		rows = append(rows, row)
	}
}

func parseTOMLRows(data []byte) ([]map[string]json.RawMessage, error) {
	var file struct{ Row []map[string]any }
	if _, err := tomldoc.Decode(string(data), &file); err != nil {
		return nil, fmt.Errorf("is not TOML: %w", err)
	}
	var rows []map[string]json.RawMessage
	for i, table := range file.Row {
		row := map[string]json.RawMessage{}
		for column, v := range table {
			raw, err := json.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("has a value that JSON does not have: row %d, %s", i+1, column)
			}
			row[column] = raw
		}
		rows = append(rows, row)
	}
	return rows, nil
}
