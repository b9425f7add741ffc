// Package tools implements saved composite tools: their definitions, names and JSON Schemas, the
// checking of arguments, and the directory in which tools are stored.
//
// Begin with [Definition], a tool, and [Store], which keeps definitions as one JSON file each,
// shared safely between processes. [CompileSchema] makes a [Schema], which validates JSON and
// coerces the arguments of a call without loss.
//
// The package reads and writes raw JSON: no number is converted to float64, and no object loses its
// key order.
package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Definition is a saved composite tool.
//
// The byte slices of a definition from a [Store] are shared with other callers and must not be
// changed.
type Definition struct {
	// Name is the tool's name and, with ".json" added, the file's name; see [CheckName].
	Name string
	// Description is the text by which agents choose the tool. An empty text is allowed.
	Description string
	// InputSchema is the JSON Schema of the call's arguments, an object with the root "type"
	// "object". Key order and number literals are kept; white space between tokens is not.
	InputSchema json.RawMessage
	// OutputSchema is the JSON Schema of the script's result, kept like InputSchema; nil if
	// the tool has none.
	OutputSchema json.RawMessage
	// Limits are the tool's own limits; the zero value means the limits of the configuration.
	Limits Limits
	// Durability says whether runs outlive their process.
	Durability
	// Permissions name the tools that the tool may call; nil if unknown. The caller of [Store.Save]
	// derives them.
	Permissions *Permissions
	// Labels are the labels of the session that saved the tool, for example "private": names of
	// data the session was given before. The code may depend on this data. Nil for none.
	Labels []string
	// Code is the Starlark script. The script is never parsed here: untrusted source is parsed only
	// in the sandbox.
	Code string
	// Metadata is maintained by the store, see [Store.Save].
	Metadata Metadata
	// Extra holds the unknown members of the file, in file order, so that rewriting a file from a
	// later version loses nothing. In [Store.Save], nil keeps the file's members.
	Extra []Member

	// schemas has the compiled schemas of definitions from a [Store]; nil for other definitions.
	schemas *Schemas
}

// Input returns the compiled InputSchema. For a definition from a [Store] the schema is compiled at
// its first use, after a turn if turn is not nil; for other definitions on each call. The error is
// a [*SchemaError].
func (d *Definition) Input(turn Turn) (*Schema, error) {
	if d.schemas == nil {
		return CompileInputSchema(d.InputSchema, "inputSchema")
	}
	return d.schemas.Input(d.InputSchema, "inputSchema", turn)
}

// Output is like Input for the OutputSchema; without an OutputSchema the result is nil, nil.
func (d *Definition) Output(turn Turn) (*Schema, error) {
	if d.OutputSchema == nil {
		return nil, nil
	}
	if d.schemas == nil {
		return CompileSchema(d.OutputSchema, "outputSchema")
	}
	return d.schemas.Any(d.OutputSchema, "outputSchema", turn)
}

// checkSchemas compiles both schemas, and keeps neither.
func (d *Definition) checkSchemas() error {
	_, err := CompileInputSchema(d.InputSchema, "inputSchema")
	if err == nil && d.OutputSchema != nil {
		_, err = CompileSchema(d.OutputSchema, "outputSchema")
	}
	return err
}

// Metadata has the times of a tool and the number of its runs. All times are in UTC.
type Metadata struct {
	// Created and Modified are written in RFC 3339. If a file lacks them, they are set to the
	// file's modification time.
	Created, Modified time.Time
	// ExecutionCount is the number of executions recorded by all processes, including this
	// process's executions not yet on disk.
	ExecutionCount int64
	// LastExecuted is zero, and absent from the file, before the first execution.
	LastExecuted time.Time
	// Extra holds unknown members of the metadata object, like Definition.Extra.
	Extra []Member
}

// Member is a name and raw value of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// sameToAgents reports whether two definitions are the same for an agent, ignoring counts
// and times.
func (d *Definition) sameToAgents(o *Definition) bool {
	return d.Changes(o) == nil && slices.Equal(d.Permissions.List(), o.Permissions.List())
}

// MaxNameLength is the longest tool name in bytes, as limited by model providers for the
// names of functions.
const MaxNameLength = 64

// NameError says why a string cannot name a composite tool.
type NameError struct {
	Name   string
	Reason string // starts in lower case and names the remedy
}

func (e *NameError) Error() string {
	return fmt.Sprintf("tool name %q: %s", display.Clip(e.Name, 80), e.Reason)
}

// CheckName returns an error if name is not a valid name of a composite tool. A name has 1 to 64 of
// the characters A-Z, a-z, 0-9, "_" and "-". Windows device names (CON, NUL, COM1, ...) are refused
// on every system, so that a tools directory can be copied anywhere. The error is a [*NameError].
func CheckName(name string) error {
	switch {
	case name == "":
		return &NameError{name, "is empty (give 1 to 64 of A-Z a-z 0-9 _ -)"}
	case len(name) > MaxNameLength:
		return &NameError{name, fmt.Sprintf("is %d bytes long (at most %d)", len(name), MaxNameLength)}
	}
	for _, r := range name {
		if !isNameRune(r) {
			return &NameError{name, fmt.Sprintf("%q is not allowed (use A-Z a-z 0-9 _ -)", r)}
		}
	}
	if isDeviceName(name) {
		return &NameError{name, "is a device name on Windows and cannot be a file name there (choose another)"}
	}
	return nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// isDeviceName follows "Naming Files, Paths, and Namespaces" in the Windows documentation: a device
// name with an extension remains a device name, so "nul.json" would not be a file.
func isDeviceName(name string) bool {
	upper := strings.ToUpper(name)
	switch upper {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	if len(upper) != 4 || upper[3] < '0' || upper[3] > '9' {
		return false
	}
	return upper[:3] == "COM" || upper[:3] == "LPT"
}

// Limits are the limits of runs of one tool, where the author wants less than the configuration
// allows. A zero field means the limit of the configuration. In JSON, limits are an object with the
// optional members
//
//	"fuel"     units of fuel in the sandbox: an integer
//	"memory"   an integer, in bytes, or "64MB"
//	"timeout"  an integer, in milliseconds, or "5s"
//	"calls"    tool calls: an integer
//
// No limit is compared with the configuration here.
type Limits struct {
	Fuel    uint64
	Memory  uint64 // bytes
	Timeout time.Duration
	Calls   int

	// raw is the object as read, with unknown members.
	raw json.RawMessage
}

// The minimum of each limit, needed to start a run.
const (
	MinFuel   = 10_000_000
	MinMemory = 16 << 20
)

// ParseLimits parses limits. The error is a [*ValidationError] with pointers into a
// definition ("/limits/fuel"). Unknown members are kept.
func ParseLimits(raw []byte) (Limits, error) {
	flat, err := compact(raw)
	if err != nil {
		return Limits{}, limitsViolation("not valid JSON")
	}
	members, err := readObject(flat)
	if err != nil {
		return Limits{}, limitsViolation(err.Error())
	}
	l := Limits{raw: flat}
	var wrong ValidationError
	for _, m := range members {
		if err := l.set(m); err != nil {
			wrong.Violations = append(wrong.Violations, Violation{pointer([]string{"limits", m.Name}), err.Error()})
		}
	}
	if wrong.Violations != nil {
		return Limits{}, &wrong
	}
	return l, nil
}

func limitsViolation(message string) error {
	return &ValidationError{[]Violation{{"/limits", message}}}
}

// set reads a member.
func (l *Limits) set(m Member) error {
	if string(m.Value) == "null" {
		return nil
	}
	var err error
	var n uint64
	switch m.Name {
	case "fuel":
		l.Fuel, err = number(m.Value, "a whole number", nil, MinFuel, strconv.Itoa)
	case "calls":
		n, err = number(m.Value, "a whole number", nil, 1, strconv.Itoa)
		l.Calls = int(min(n, math.MaxInt32))
	case "memory":
		l.Memory, err = number(m.Value, `a size such as "64MB" or a whole number of bytes`, units.ParseSize, MinMemory,
			func(n int) string { return units.FormatSize(uint64(n)) })
	case "timeout":
		n, err = number(m.Value, `a duration such as "5s" or a whole number of milliseconds`, milliseconds, 1,
			func(int) string { return "1ms" })
		l.Timeout = time.Duration(min(n, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
	}
	return err
}

// number reads a JSON number or, if parse is not nil, a JSON string; format formats the minimum for
// messages. A number too large for its type becomes the maximum, which no configuration allows.
func number(raw []byte, want string, parse func(string) (uint64, error), least int, format func(int) string) (uint64, error) {
	var n uint64
	var err error
	switch text, unquoteErr := jsontext.AppendUnquote(nil, raw); {
	case raw[0] == '"' && parse != nil && unquoteErr == nil:
		if n, err = parse(string(text)); err != nil {
			return 0, fmt.Errorf("%s %w", display.Clip(string(raw), 40), err)
		}
	default:
		n, err = strconv.ParseUint(string(raw), 10, 64)
		if err != nil && n != math.MaxUint64 {
			return 0, fmt.Errorf("got %s, want %s", display.Clip(string(raw), 40), want)
		}
	}
	if n < uint64(least) {
		return 0, fmt.Errorf("got %s, want at least %s", display.Clip(string(raw), 40), format(least))
	}
	return n, nil
}

func milliseconds(text string) (uint64, error) {
	d, err := units.ParseDuration(text)
	return uint64(max(0, d.Milliseconds())), err
}

// JSON returns the limits as an object: unchanged if parsed, nil without limits. The caller must
// not change the result.
func (l Limits) JSON() json.RawMessage {
	if l.raw != nil || l.Fuel == 0 && l.Memory == 0 && l.Timeout == 0 && l.Calls == 0 {
		return l.raw
	}
	text, err := json.Marshal(struct {
		Fuel    uint64 `json:"fuel,omitempty"`
		Memory  uint64 `json:"memory,omitempty"`
		Timeout int64  `json:"timeout,omitempty"`
		Calls   int    `json:"calls,omitempty"`
	}{l.Fuel, l.Memory, l.Timeout.Milliseconds(), l.Calls})
	if err != nil { // cannot fail: all members are integers
		panic(err)
	}
	return text
}

// InDoubt says how a durable run continues if a call may or may not have been made: the process
// died after the call could have been sent, and no answer came. Calls of idempotent tools are
// repeated in any case.
type InDoubt string

// The values of InDoubt.
const (
	FailInDoubt InDoubt = "fail" // the run fails; nothing is undone
	UndoInDoubt InDoubt = "undo" // the run fails, and the compensations are made
	AskInDoubt  InDoubt = "ask"  // a person decides whether the call is repeated
)

// Durability says whether runs of a tool outlive their process. In JSON a Durability is the members
// "durable", a boolean, and "inDoubt", one of the values of InDoubt.
type Durability struct {
	// Durable says that a run goes on in another process if its own process dies.
	Durable bool
	// InDoubt is "" for FailInDoubt. Only durable tools have an InDoubt.
	InDoubt InDoubt
}

// Doubt returns InDoubt, or the default.
func (d Durability) Doubt() InDoubt {
	if d.InDoubt == "" {
		return FailInDoubt
	}
	return d.InDoubt
}

// CheckInDoubt returns the value of the member "inDoubt" with this text; "" is no value.
func CheckInDoubt(text string) (InDoubt, error) {
	switch v := InDoubt(text); v {
	case "", FailInDoubt, UndoInDoubt, AskInDoubt:
		return v, nil
	}
	return "", fmt.Errorf(`"inDoubt" is %q (want "fail", "undo" or "ask")`, display.Clip(text, 40))
}

// Check returns an error if the settings contradict each other.
func (d Durability) Check() error {
	if d.InDoubt != "" && !d.Durable {
		return errors.New(`"inDoubt" is only for tools with "durable": true`)
	}
	return nil
}

// text identifies the settings; "" if the tool is not durable.
func (d Durability) text() string {
	if !d.Durable {
		return ""
	}
	return string(d.Doubt())
}

// members writes the settings.
func (d Durability) members(w *fileWriter) {
	if d.Durable {
		w.raw("durable", []byte("true"))
	}
	if d.InDoubt != "" {
		w.text("inDoubt", string(d.InDoubt))
	}
}

// durability reads the settings.
func (r *fileReader) durability() (d Durability) {
	if v := r.raw("durable"); v != nil {
		on, err := strconv.ParseBool(string(v))
		if kind := jsontext.Value(v).Kind(); err != nil || kind != 't' && kind != 'f' {
			r.fail(`"durable" is %s (want true or false)`, display.Clip(string(v), 40))
		}
		d.Durable = on
	}
	var err error
	if d.InDoubt, err = CheckInDoubt(r.text("inDoubt", false)); err == nil {
		err = d.Check()
	}
	if err != nil {
		r.fail("%w", err)
	}
	return d
}

// hashFormat is the first line of the hashed text, and must change with the format of the text.
const hashFormat = "mcp-metatool definition 1\n"

// Hash identifies everything that affects a run of the tool: name, code, schemas, limits,
// durability and the bounds of permissions, but not description, times, counts, or anything derived
// from the code. The hash is the SHA-256, in lower-case hexadecimal, of a line naming the format,
// followed for each part by a line "PART LENGTH" and LENGTH bytes:
//
//	name, code    unchanged
//	inputSchema   without white space between tokens, otherwise unchanged
//	outputSchema  likewise; absent if the tool has none
//	limits        "fuel=N memory=BYTES timeout=NANOSECONDS calls=N"; absent if
//	              none is set
//	durable       what happens in doubt; absent if the tool is not durable
//	bounds        Permissions.Bounds as a JSON array; absent if there are none
//	labels        Labels, with commas between them; absent if there are none
//
// A schema that is not JSON is hashed unchanged.
func (d *Definition) Hash() string {
	h := sha256.New()
	io.WriteString(h, hashFormat) // writing to a hash never fails
	part := func(name string, content []byte) {
		fmt.Fprintf(h, "%s %d\n", name, len(content))
		h.Write(content)
	}
	part("name", []byte(d.Name))
	part("code", []byte(d.Code))
	part("inputSchema", compactOrAsIs(d.InputSchema))
	if d.OutputSchema != nil {
		part("outputSchema", compactOrAsIs(d.OutputSchema))
	}
	if l := d.Limits; l.Fuel != 0 || l.Memory != 0 || l.Timeout != 0 || l.Calls != 0 {
		part("limits", fmt.Appendf(nil, "fuel=%d memory=%d timeout=%d calls=%d", l.Fuel, l.Memory, l.Timeout, l.Calls))
	}
	if text := d.Durability.text(); text != "" {
		part("durable", []byte(text))
	}
	if bounds := d.bounds(); bounds != "" {
		part("bounds", []byte(bounds))
	}
	if len(d.Labels) > 0 {
		part("labels", []byte(strings.Join(d.Labels, ",")))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func compactOrAsIs(raw []byte) []byte {
	if flat, err := compact(raw); err == nil {
		return flat
	}
	return raw
}
