package shadow

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// answer answers a call of a shadow, except calls of saved tools, which are run. blanked reports
// that the answer is a blank.
//
// A shadow before its first blank is like the run, and gets the same answers. After a blank, the
// answers, and whether the shadow is answered at all, must not depend on answers of the run: so
// answer never returns "the answer that the run has, if it has one".
func (p *Tape) answer(t *target, clean bool) (a journal.Answer, blanked bool) {
	s := p.s
	switch {
	case t.failed != nil:
		return journal.Answer{Err: t.failed}, false
	case t.Server == abi.Composites:
		return journal.Answer{}, false
	case clean && (t.made == nil || !s.tree.isDone(t.made)):
		return p.end(t, "the run has no answer to its call"), false
	case clean:
		p.use(t.made)
		if s.tree.labels(t.made).Has(s.label) {
			return p.source(t), true
		}
		return s.tree.answer(t.made), false
	}
	rules := s.tree.o.Rules
	found := t.made
	if found == nil {
		found = p.find(t)
	}
	switch {
	case rules.Source(t.Server, t.Tool, nil).Has(s.label), found != nil && s.tree.labels(found).Has(s.label):
		if !rules.ReadsOnly(t.Server, t.Tool) {
			s.wrote[t.Server] = true
		}
		return p.source(t), true
	case t.sink && s.wrote[t.Server]: // the answer may show the written data
		return p.blank(t, false), true
	case t.sink && found.stale.Has(s.label):
		return p.stale(t), false
	case t.sink && found.after != s.told[t.Server]:
		return p.end(t, fmt.Sprintf("%s was asked something else before, so that what %s.%s answers may depend on that", t.Server, t.Server, t.Tool)), false
	case t.sink: // the call was found equal
		if !s.tree.isDone(found) {
			return p.end(t, "the run has no answer to its call"), false
		}
		p.use(found)
		return s.tree.answer(found), false
	case !rules.ReadsOnly(t.Server, t.Tool):
		return p.blank(t, true), true
	case s.wrote[t.Server]:
		return p.blank(t, false), true
	case found == nil, !s.tree.isDone(found):
		return p.end(t, fmt.Sprintf("it asks %s.%s something for which there is no answer without labels", t.Server, t.Tool)), false
	case found.stale.Has(s.label):
		return p.stale(t), false
	}
	p.use(found)
	return s.tree.answer(found), false
}

func (t *Tree) isDone(m *Made) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return m.done
}

func (t *Tree) labels(m *Made) flow.Labels {
	t.mu.Lock()
	defer t.mu.Unlock()
	return m.labels
}

func (t *Tree) answer(m *Made) journal.Answer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return m.answer
}

// use notes that the shadow has had the answer to a call. The shadow gets each answer once.
func (p *Tape) use(m *Made) {
	if p.used == nil {
		p.used = map[*Made]bool{}
	}
	p.used[m] = true
}

// find returns the first equal call of the run of the same saved tool whose answer the shadow has
// not had; nil for none. The earlier messages and questions to the server must have been the same.
func (p *Tape) find(t *target) *Made {
	p.s.tree.mu.Lock()
	defer p.s.tree.mu.Unlock()
	n := p.s.tree.nodes[p.path]
	if n == nil {
		return nil
	}
	for _, m := range n.calls {
		if !p.used[m] && m.after == p.s.told[t.Server] && m.Difference(&t.Call) == "" {
			return m
		}
	}
	return nil
}

// end ends the shadow: the error cannot be caught. The end counts as a denial, since the end may
// depend on labelled answers.
func (p *Tape) end(t *target, why string) journal.Answer {
	if p.s.why == "" {
		p.s.why = why
	}
	return journal.Answer{Err: &abi.CallError{Type: abi.ErrPermission, Server: t.Server, Tool: t.Tool, Message: "flow: " + why}}
}

// stale ends the shadow because the answer of a server may show data that only the run has sent.
func (p *Tape) stale(t *target) journal.Answer {
	return p.end(t, fmt.Sprintf("%s was given what may depend on labelled answers, so that what %s.%s answers may, too", t.Server, t.Server, t.Tool))
}

// maxBlanks is how many blanks of a tool a shadow gets in the shadow's own form. Later blanks are
// empty, so that a script ends that asks for pages until a page is empty, or again until no error
// is left. The number of the shadow's calls depends on no labelled answer.
const maxBlanks = 32

// blanksOf counts a blank in place of an answer of a tool, and returns the form of the blank.
func (s *shadow) blanksOf(t *target) flow.Blanks {
	tool := [2]string{t.Server, t.Tool}
	if s.given[tool]++; s.given[tool] > maxBlanks {
		return flow.Blanks{Blank: flow.Empty}
	}
	return s.blanks
}

// source returns the blank in place of a labelled answer.
func (p *Tape) source(t *target) journal.Answer {
	b := p.s.blanksOf(t)
	if b.Blank != flow.Fail {
		return p.value(t, b)
	}
	if t.Raw {
		return journal.Answer{Value: b.Result([]byte(`"no answer"`), false, true)}
	}
	return journal.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: t.Server, Tool: t.Tool, Message: "no answer"}}
}

// blank returns a blank in place of another answer. wrote reports that the call may change the
// server's answers to other calls.
func (p *Tape) blank(t *target, wrote bool) journal.Answer {
	if wrote {
		p.s.wrote[t.Server] = true
	}
	return p.value(t, p.s.blanksOf(t))
}

func (p *Tape) value(t *target, b flow.Blanks) journal.Answer {
	shape := p.s.tree.o.Rules.Shape(t.Server, t.Tool)
	value := b.Value(shape)
	if t.Raw {
		value = b.Result(value, shape != nil, false)
	}
	return journal.Answer{Value: value}
}
