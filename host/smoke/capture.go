package smoke

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
)

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
