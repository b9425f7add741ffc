package repl

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// An input is evaluated as a script of its own, with eval_starlark. Before the input,
// the script binds the names of earlier inputs; after it, the script reports their
// values. Data is passed as JSON or as the expression that repr writes, functions as
// their source. Nothing is run twice.

// replState is the state between inputs of a repl.
type replState struct {
	names     []string             // in the order in which they were first bound
	values    map[string]replValue // by name
	functions []replFunction       // in the order in which they were defined
	inputs    int
}

// replValue is a value other than a function: JSON, or an expression.
type replValue struct {
	JSON string `json:"json"`
	Code string `json:"code"`
}

// replFunction is the source of a function.
type replFunction struct {
	name  string
	lines []string
	input int // the number of the input with the definition
	line  int // the line of the definition in the input, from 1
}

// replProgram is the script for one input.
type replProgram struct {
	code   string
	params []byte // raw JSON object
	names  []string
	lint   abi.Lint
	input  []string // lines
	number int
	parts  []replPart
}

// replPart says which lines of a script belong to which input.
type replPart struct{ first, lines, input, line int }

// replCoda reports the values of names. These are passed as [name, function] pairs,
// because a name can be unbound.
//
//go:embed coda.star
var replCoda string

// program returns the script for an input; l is the analysis of the input.
func (s *replState) program(input string, l abi.Lint) replProgram {
	p := replProgram{lint: l, input: strings.Split(strings.TrimRight(input, "\n"), "\n"), number: s.inputs, names: slices.Clone(s.names)}
	if !l.Parses { // the input cannot run, and its error must be about the input alone
		p.code, p.params = input, []byte("{}")
		p.parts = []replPart{{1, len(p.input) + 1, s.inputs, 1}} // and its end
		return p
	}
	bound := l.Bound
	if l.Value != nil {
		bound = append(slices.Clone(bound), abi.Binding{Name: "_"})
	}
	for _, b := range bound {
		if !slices.Contains(p.names, b.Name) {
			p.names = append(p.names, b.Name)
		}
	}
	var b replBuilder
	b.add(`_repl = {"decode": json.decode, "encode": json.encode, "repr": repr, "type": type, "str": str, "len": len, "all": all, "abs": abs, "float": float, "given": params}; params = {}`)
	given := map[string]string{}
	var early, late []string
	for _, name := range s.names {
		switch v, ok := s.values[name]; {
		case !ok && !s.isFunction(name):
			b.add(fmt.Sprintf("if False: %s = None", name)) // declared, but not bound
		case v.JSON != "":
			given[name] = v.JSON
			late = append(late, fmt.Sprintf("%s = _repl.decode(_repl.given[%s])", name, wire.Quote(name)))
		case ok:
			early = append(early, name+" = "+v.Code) // before an input can rebind the names of servers
		}
	}
	for _, line := range append(early, late...) {
		b.add(line)
	}
	for _, f := range s.functions {
		b.part(&p, f.lines, f.input, f.line)
	}
	p.params = wire.Marshal(given)
	if v := l.Value; v != nil {
		before, at := p.input[:v.Line-1], []rune(p.input[v.Line-1])
		b.part(&p, before, s.inputs, 1)
		b.add(string(at[:v.Column-1]) + `_ = \`) // the expression keeps its columns
		after := slices.Clone(p.input[v.Line-1:])
		after[0] = strings.Repeat(" ", v.Column-1) + string(at[v.Column-1:])
		b.part(&p, after, s.inputs, v.Line)
	} else {
		b.part(&p, p.input, s.inputs, 1)
	}
	var pairs []string
	for _, name := range p.names {
		pairs = append(pairs, fmt.Sprintf("[%s, lambda: %s]", wire.Quote(name), name))
	}
	b.add(strings.Replace(replCoda, "NAMES", "["+strings.Join(pairs, ", ")+"]", 1))
	p.code = b.text.String()
	return p
}

// replBuilder writes a script and counts its lines.
type replBuilder struct {
	text  strings.Builder
	lines int
}

func (b *replBuilder) add(text string) {
	text = strings.TrimRight(text, "\n") + "\n"
	b.text.WriteString(text)
	b.lines += strings.Count(text, "\n")
}

// part adds lines of an input.
func (b *replBuilder) part(p *replProgram, lines []string, input, line int) {
	if len(lines) == 0 {
		return
	}
	p.parts = append(p.parts, replPart{b.lines + 1, len(lines), input, line})
	b.add(strings.Join(lines, "\n"))
}

func (s *replState) isFunction(name string) bool {
	return slices.ContainsFunc(s.functions, func(f replFunction) bool { return f.name == name })
}

// replKept is the coda's report of a name.
type replKept struct {
	replValue
	Function bool   `json:"function"`
	Lost     string `json:"lost"` // why the value cannot be kept
	Repr     string `json:"repr"` // of _ only
	Unbound  bool   `json:"unbound"`
}

// replOutcome is the outcome of an input.
type replOutcome struct {
	text  string   // the value as text; "" for None and no value
	notes []string // names that are not kept, and why
}

// update updates the state from the result of a program, raw JSON.
func (s *replState) update(p replProgram, result []byte) replOutcome {
	raw, ours := wire.Get(result, "_repl")
	var kept map[string]replKept
	if !ours || json.Unmarshal(raw, &kept) != nil {
		// The input has a return statement, so its names are unknown.
		return replOutcome{text: string(cli.IndentJSON(result))}
	}
	var out replOutcome
	if s.values == nil {
		s.values = map[string]replValue{}
	}
	for _, name := range p.names {
		k := kept[name]
		if name == "_" {
			if p.lint.Value == nil || k.Unbound {
				continue // no value, or None
			}
			out.text = showValue(k)
		}
		if !slices.Contains(s.names, name) {
			if k.Unbound {
				continue
			}
			s.names = append(s.names, name)
		}
		if why := s.keep(p, name, k); why != "" && name != "_" {
			out.notes = append(out.notes, fmt.Sprintf("%s is not there for further inputs: %s", name, why))
		}
	}
	return out
}

// keep keeps the value of a name, or notes the obstacle.
func (s *replState) keep(p replProgram, name string, k replKept) (why string) {
	at := slices.IndexFunc(p.lint.Bound, func(b abi.Binding) bool { return b.Name == name })
	if k.Function && at < 0 && s.isFunction(name) {
		return ""
	}
	_, had := s.values[name]
	had = had || s.isFunction(name)
	delete(s.values, name)
	s.functions = slices.DeleteFunc(s.functions, func(f replFunction) bool { return f.name == name })
	switch {
	case k.JSON != "" || k.Code != "":
		s.values[name] = k.replValue
	case k.Function && at >= 0 && p.lint.Bound[at].First > 0:
		b := p.lint.Bound[at]
		s.functions = append(s.functions, replFunction{name, p.input[b.First-1 : b.Last], p.number, b.First})
	case k.Function && (at >= 0 || had):
		return "a function is only kept if its def, or name = lambda, has lines of its own and no calls in its defaults"
	case k.Lost != "" && (at >= 0 || had):
		return k.Lost
	}
	return ""
}

// showValue returns the value of an input as text for people.
func showValue(k replKept) string {
	if k.JSON != "" && (k.JSON[0] == '{' || k.JSON[0] == '[') {
		return string(cli.IndentJSON([]byte(k.JSON)))
	}
	return k.Repr
}

// forget drops all names.
func (s *replState) forget() { s.names, s.values, s.functions = nil, nil, nil }

// replPlaces are the forms in which errors name lines of a script.
var replPlaces = lazyregexp.New(`(^  at |^  |\()eval_starlark:(\d+):(\d+)|^line (\d+): `)

// locate replaces the places in an error by places in inputs; <input> is this input.
func (p *replProgram) locate(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = replPlaces.ReplaceAllStringFunc(line, func(found string) string {
			m := replPlaces.FindStringSubmatch(found)
			if m[4] != "" {
				if _, at, ok := p.place(m[4]); ok {
					return fmt.Sprintf("line %d: ", at)
				}
				return found
			}
			input, at, ok := p.place(m[2])
			switch {
			case !ok:
				return found
			case input != p.number:
				return fmt.Sprintf("%s<input %d>:%d:%s", m[1], input+1, at, m[3])
			}
			if v := p.lint.Value; v != nil && v.Line == at && i+1 < len(lines) {
				lines[i+1] = p.whole(lines[i+1])
			}
			return fmt.Sprintf("%s<input>:%d:%s", m[1], at, m[3])
		})
	}
	return strings.Join(lines, "\n")
}

// whole returns a line of source as typed, if the line is the line of the value, which has a line
// of its own in the script.
func (p *replProgram) whole(source string) string {
	line := p.input[p.lint.Value.Line-1]
	value := strings.TrimSpace(string([]rune(line)[p.lint.Value.Column-1:]))
	if strings.TrimSpace(source) != value {
		return source
	}
	return "    " + line
}

// place returns the input of a line of the script, and the line in the input.
func (p *replProgram) place(text string) (input, line int, ok bool) {
	n, err := strconv.Atoi(text)
	for _, part := range p.parts {
		if err == nil && n >= part.first && n < part.first+part.lines {
			return part.input, part.line + n - part.first, true
		}
	}
	return 0, 0, false
}
