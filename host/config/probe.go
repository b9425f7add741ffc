package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// probe reads the call that a health check makes; nil if there is none.
func (t *table) probe(u *Upstream) *Probe {
	sub := t.sub("probe")
	if sub == nil {
		return nil
	}
	sub.inherit(t)
	p := &Probe{Params: []byte("{}")}
	setDefaults(p.limits())
	call, ok := sub.str("call")
	switch {
	case sub.node.fields["call"] == nil:
		example := `call = "…"`
		if t.r.json {
			example = `"call": "…"`
		}
		sub.problem("", "has no call (say which of the server's tools to call: %s)", example)
	case ok && call == "":
		sub.problem("call", "is empty (name a tool of the server)")
	case ok && u.Hides(call):
		sub.problem("call", "%s is hidden, so nobody may call it (see hide)", quoteWritten(sub.node.fields["call"]))
	}
	p.Call = call
	if n := sub.get("params", t.tableType(), kindTable); n != nil {
		p.Params = sub.raw("params", n, sub.expandPrivate)
	}
	sub.know("expect")
	if n := sub.node.fields["expect"]; n != nil {
		p.Expect = sub.expectation("expect", n)
	}
	sub.limits("upstream.probe", p.limits())
	sub.close(probeAliases)
	return p
}

// probeAliases are other names for these settings.
var probeAliases = map[string]string{
	"tool": "call", "name": "call", "args": "params", "arguments": "params", "expected": "expect", "result": "expect",
}

// expectation reads what the answer to a probe must be: a text that it contains, a
// pattern between slashes, or a value of another type.
func (t *table) expectation(key string, n *node) *Expectation {
	if n.kind != kindString {
		return &Expectation{Value: t.raw(key, n, t.expandNamed)}
	}
	text, ok := t.expandPublic(key, n)
	if !ok {
		return &Expectation{}
	}
	if len(text) < 2 || !strings.HasPrefix(text, "/") || !strings.HasSuffix(text, "/") {
		if text == "" {
			t.problem(key, "is empty (leave it out to accept every answer that is not an error)")
		}
		return &Expectation{Text: text}
	}
	pattern := text[1 : len(text)-1]
	var bad *syntax.Error // its Error would quote the value of a variable
	if _, err := regexp.Compile(pattern); errors.As(err, &bad) {
		t.problem(key, "%s is not a regular expression: %s", quoteWritten(n), bad.Code)
	}
	return &Expectation{Pattern: pattern}
}

// expandNamed expands a string. A variable in it is secret if the variable's name
// suggests it; all of it is secret if the string's own name does.
func (t *table) expandNamed(key, name string, n *node) (string, bool) {
	e, ok := t.expand(key, n)
	t.keep(key, e, append(secretVars(e, false), secretParts(name, e.text)...))
	return e.text, ok
}

// raw returns a value as JSON. str expands the strings in it; name is the name of the
// nearest member. An invalid value is reported and written as null. The masked form is
// recorded under the key.
func (t *table) raw(key string, n *node, str func(key, name string, n *node) (string, bool)) []byte {
	v := rawValue{table: t, str: str}
	v.write(key, key, n)
	if v.secret {
		t.r.shown[t.path(key)] = v.shown.String()
	}
	return v.text.Bytes()
}

// rawValue builds the JSON of a value, and its masked form.
type rawValue struct {
	*table
	str         func(key, name string, n *node) (string, bool)
	text, shown bytes.Buffer
	secret      bool // shown differs from text
}

func (v *rawValue) both(text string) {
	v.text.WriteString(text)
	v.shown.WriteString(text)
}

func (v *rawValue) write(key, name string, n *node) {
	want, kinds := "what JSON has", []kind{kindTable, kindArray, kindString, kindInteger, kindFloat, kindBool, kindNull}
	if n.kind == kindTime {
		want = "a string"
	}
	if !v.check(key, n, want, kinds...) {
		v.both("null")
		return
	}
	switch n.kind {
	case kindTable:
		v.members(key, n)
	case kindArray:
		v.both("[")
		for i, item := range n.items {
			if i > 0 {
				v.both(",")
			}
			v.write(fmt.Sprintf("%s[%d]", key, i), name, item)
		}
		v.both("]")
	case kindString:
		text, _ := v.str(key, name, n)
		v.text.Write(wire.Quote(text))
		if masked, ok := v.r.shown[v.path(key)]; ok {
			text, v.secret = masked, true
		}
		v.shown.Write(wire.Quote(text))
	case kindFloat:
		if strings.ContainsAny(n.text, "IN") {
			v.problem(key, "%s is not a number in JSON", quoteWritten(n))
			n = &node{text: "null"}
		}
		v.both(n.text)
	default:
		v.both(n.text)
	}
}

func (v *rawValue) members(key string, n *node) {
	v.both("{")
	for i, name := range n.keys {
		if i > 0 {
			v.both(",")
		}
		v.both(string(wire.Quote(name)) + ":")
		v.write(key+"."+name, name, n.fields[name])
	}
	v.both("}")
}

// probe describes the call that a health check makes.
func (d *description) probe(at string, p *Probe) {
	if p == nil {
		return
	}
	at += "probe."
	text := d.shown(at+"call", p.Call) + " " + d.shown(at+"params", string(p.Params))
	if e := p.Expect; e != nil {
		what := ""
		switch {
		case e.Value != nil:
			what = d.shown(at+"expect", string(e.Value))
		case e.Pattern != "":
			what = d.shown(at+"expect", "/"+e.Pattern+"/")
		default:
			what = shellWord(d.shown(at+"expect", e.Text))
		}
		text += "; expects " + what
	}
	d.line("probe", text+"; within "+units.FormatDuration(p.Timeout))
}
