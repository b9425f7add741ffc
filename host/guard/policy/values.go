package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Values are the values of variables for a decision. A value is read when a condition needs it.
type Values struct {
	request   Request
	engine    *Engine // counts the calls per minute; nil: no calls
	arguments *Arguments
	failed    error // of reading the arguments
	session   *snapshot
	run       *snapshot
}

// Arguments returns the arguments of the request. The error is a Failure.
func (v *Values) Arguments() (*Arguments, error) {
	if v.arguments == nil && v.failed == nil {
		v.arguments, v.failed = ParseArguments(v.request.Arguments)
	}
	return v.arguments, v.failed
}

// Variable returns the value of a variable other than args. known reports whether the variable
// exists. The error is a Failure.
func (v *Values) Variable(name string) (value any, known bool, err error) {
	value, known = v.ofRequest(name)
	if !known {
		value, known, err = v.before(name)
	}
	return value, known, err
}

// ofRequest resolves the variables about the request.
func (v *Values) ofRequest(name string) (any, bool) {
	r := &v.request
	switch name {
	case "kind":
		return string(r.Kind), true
	case "target":
		return r.Target(), true
	case "server":
		return r.Server, true
	case "name":
		return r.Name, true
	case "tool.name":
		return ofTool(r, r.Name), true
	case "tool.server":
		return ofTool(r, r.Server), true
	case "tool.digest":
		return definitionDigest(r), true
	case "tool.annotations.title":
		title, _ := wire.GetString(r.Definition, "annotations", "title")
		return title, true
	case "client":
		return r.Caller.Client, true
	case "client.token":
		return r.Caller.Token, true
	case "script":
		return r.Caller.Script, true
	}
	return annotation(r, name)
}

// before resolves the variables about earlier calls.
func (v *Values) before(name string) (value any, known bool, err error) {
	if v.session == nil {
		c := callOf(&v.request)
		session, run := v.request.Caller.SessionCalls.at(c), v.request.Caller.RunCalls.at(c)
		v.session, v.run = &session, &run
	}
	// remembered returns a value, or a failure if the calls were too many to remember.
	remembered := func(full bool, value any) (any, bool, error) {
		if full {
			return nil, true, errForgotten
		}
		return value, true, nil
	}
	switch name {
	case "session.called":
		return remembered(v.session.full, v.session.called)
	case "session.servers":
		return remembered(v.session.full, v.session.servers)
	case "session.private":
		return v.session.given.Private, true, nil
	case "session.untrusted":
		return v.session.given.Untrusted, true, nil
	case "run.called":
		return remembered(v.run.full, v.run.called)
	case "run.servers":
		return remembered(v.run.full, v.run.servers)
	case "calls.session":
		return v.session.calls, true, nil
	case "calls.run":
		return v.run.calls, true, nil
	case "calls.tool.session":
		return remembered(v.session.full, v.session.same)
	case "calls.tool.run":
		return remembered(v.run.full, v.run.same)
	case "calls.minute":
		all, _, _ := v.engine.lastMinute(&v.request)
		return all, true, nil
	case "calls.tool.minute":
		_, same, full := v.engine.lastMinute(&v.request)
		return remembered(full, same)
	}
	return nil, false, nil
}

// ofTool returns text if the request is about a tool.
func ofTool(r *Request, text string) string {
	if r.Kind != KindTool {
		return ""
	}
	return text
}

// definitionDigest returns the digest of the definition as its server sent it; "" without a
// definition.
func definitionDigest(r *Request) string {
	if r.Definition == nil {
		return ""
	}
	own, err := wire.Set(r.Definition, wire.Quote(r.Name), "name") // the definition has the name for clients
	if err != nil {
		return ""
	}
	return pins.Digest(own)
}

// annotation resolves a hint. A missing hint has the default of revision 2025-11-25 (schema,
// ToolAnnotations), where destructiveHint and idempotentHint are defined only for tools that are
// not read-only. Reads of resources, prompts and completions count as read-only.
func annotation(r *Request, name string) (hint any, ok bool) {
	read := r.Kind == KindResource || r.Kind == KindPrompt || r.Kind == KindCompletion
	readOnly := flag(r, "readOnlyHint", read)
	switch name {
	case "tool.annotations.readOnlyHint":
		return readOnly, true
	case "tool.annotations.destructiveHint":
		return flag(r, "destructiveHint", true) && !readOnly, true
	case "tool.annotations.idempotentHint":
		return flag(r, "idempotentHint", false) || readOnly, true
	case "tool.annotations.openWorldHint":
		return flag(r, "openWorldHint", true), true
	}
	return nil, false
}

// flag returns a hint of the definition, or fallback without a boolean hint.
func flag(r *Request, hint string, fallback bool) bool {
	if r.Kind != KindTool {
		return fallback
	}
	switch raw, _ := wire.Get(r.Definition, "annotations", hint); string(raw) {
	case "true":
		return true
	case "false":
		return false
	}
	return fallback
}

// Bounds of arguments that conditions read.
const (
	maxArgumentBytes  = 4 << 20
	maxArgumentDepth  = 200
	maxArgumentValues = 100_000
)

// ExactFloats is the first number from which floats do not hold every integer.
const ExactFloats = 1 << 53

// Arguments are the arguments of a request, for conditions. Arguments that two readers could read
// differently are refused: no member occurs twice, and every number has exactly the value of its
// text.
type Arguments struct {
	// Object has strings, booleans, int64, uint64, float64, nil, []any and map[string]any.
	Object map[string]any
	names  map[string]bool // of all members, at any depth
}

// ParseArguments reads raw arguments, nil for none. The error is a Failure.
func ParseArguments(raw []byte) (*Arguments, error) {
	a := &Arguments{names: map[string]bool{}}
	if raw == nil {
		a.Object = map[string]any{}
		return a, nil
	}
	if len(raw) > maxArgumentBytes {
		return nil, Failure(fmt.Sprintf("the arguments have more than %d bytes", maxArgumentBytes))
	}
	p := &argumentParser{d: jsontext.NewDecoder(bytes.NewReader(raw)), names: a.names}
	v, err := p.value(0)
	if err == nil {
		if _, end := p.d.ReadToken(); end != io.EOF {
			err = errors.New("more than one value")
		}
	}
	var own Failure
	switch {
	case errors.As(err, &own):
		return nil, own
	case errors.Is(err, jsontext.ErrDuplicateName):
		return nil, Failure("the arguments have two members with the same name")
	case err != nil:
		return nil, Failure("the arguments are not JSON that every reader reads in the same way")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, Failure("the arguments are not an object")
	}
	a.Object = object
	return a, nil
}

// CheckNames refuses arguments with a member that only resembles a member in a condition, since
// some parsers take the two for the same. The mentioned names are by their wire.Fold. The error is
// a Failure.
func (a *Arguments) CheckNames(mentioned map[string][]string) error {
	if len(mentioned) == 0 {
		return nil
	}
	for name := range a.names {
		if same := mentioned[wire.Fold(name)]; same != nil && !slices.Contains(same, name) {
			return Failure(fmt.Sprintf("the arguments have a member whose name only resembles %q", same[0]))
		}
	}
	return nil
}

// argumentParser reads a JSON text.
type argumentParser struct {
	d     *jsontext.Decoder
	names map[string]bool
	count int
}

// value reads a value: a string, bool, int64, uint64, float64, nil, []any or
// map[string]any.
func (p *argumentParser) value(depth int) (any, error) {
	if p.count++; p.count > maxArgumentValues {
		return nil, Failure(fmt.Sprintf("the arguments have more than %d values", maxArgumentValues))
	}
	if depth > maxArgumentDepth {
		return nil, Failure(fmt.Sprintf("the arguments are nested deeper than %d levels", maxArgumentDepth))
	}
	token, err := p.d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return token.String(), nil
	case 't', 'f':
		return token.Bool(), nil
	case '0':
		return exactNumber(token.String())
	case '[':
		return p.array(depth)
	case '{':
		return p.object(depth)
	}
	return nil, nil
}

func (p *argumentParser) array(depth int) (any, error) {
	list := []any{}
	for p.d.PeekKind() != ']' {
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := p.d.ReadToken()
	return list, err
}

func (p *argumentParser) object(depth int) (any, error) {
	members := map[string]any{}
	for p.d.PeekKind() != '}' {
		token, err := p.d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		p.names[name], members[name] = true, v
	}
	_, err := p.d.ReadToken()
	return members, err
}

// exactNumber returns a JSON number as an int64, uint64 or float64 with exactly the value of its
// text.
func exactNumber(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	inexact := Failure("the arguments have a number that cannot be compared exactly")
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || decimal(text) != decimal(strconv.FormatFloat(f, 'e', -1, 64)) {
		return nil, inexact
	}
	switch whole := f == math.Trunc(f); {
	case math.Abs(f) < ExactFloats:
		return f, nil
	case !whole || math.Abs(f) == 1<<64: // as a float, the largest uint64 is 1<<64, too
		return nil, inexact
	case f >= -1<<63 && f < 1<<63:
		return int64(f), nil
	case f > 0 && f < 1<<64:
		return uint64(f), nil
	}
	return f, nil
}

// decimal returns the value of a JSON number as digits without zeros around them, and
// their exponent.
func decimal(text string) string {
	text, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	e, err := strconv.Atoi(exponent)
	if err != nil && exponent != "" {
		return "" // an exponent out of all bounds
	}
	text, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	e -= len(fraction)
	significant := strings.TrimRight(digits, "0")
	e += len(digits) - len(significant)
	if significant == "" {
		return "0"
	}
	sign := ""
	if negative {
		sign = "-"
	}
	return sign + significant + "e" + strconv.Itoa(e)
}
