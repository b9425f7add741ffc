package flowtable

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// A statement is a line, or heads with bodies: if and else, try and except, for, def.
type statement struct {
	heads  []string
	bodies [][]*statement // nil for a line
}

// A program is a script with the saved tools part0 and part1, of which the first may call the
// second.
type program struct {
	main  []*statement
	parts [2][]*statement
}

// prologue makes random programs fail less: num, txt, seq and at take anything.
const prologue = `def num(x):
    if isinstance(x, int):
        return int(x)
    return len(x) if isinstance(x, (str, list, dict)) else 0
def txt(x):
    return str(x)[:60]
def seq(x):
    if isinstance(x, dict):
        x = list(x.values())
    return list(x)[:3] if isinstance(x, (list, str)) else [x]
def at(x, k):
    if isinstance(x, dict):
        return x.get(k, None)
    return x[0] if isinstance(x, (list, str)) and len(x) > 0 else x
a = b = c = d = 0
`

func (p *program) code() string { return prologue + text(p.main, 0) + "return [a, b, c, d]\n" }

func (p *program) saved() map[string]string {
	all := map[string]string{}
	for i, part := range p.parts {
		all[fmt.Sprintf("part%d", i)] = prologue + "a = params.get('x', 0)\n" + text(part, 0) + "return [a, b]\n"
	}
	return all
}

func text(all []*statement, depth int) string {
	indent := strings.Repeat("    ", depth)
	if len(all) == 0 {
		return indent + "pass\n"
	}
	var b strings.Builder
	for _, s := range all {
		for i, head := range s.heads {
			b.WriteString(indent + head + "\n")
			if s.bodies != nil {
				b.WriteString(text(s.bodies[i], depth+1))
			}
		}
	}
	return b.String()
}

// generator makes random programs.
type generator struct {
	*rand.Rand
	left  int // statements
	parts int // how many saved tools may be called: from the last one
	loops int // around the statement
	label int
	// closed leaves out calls of tools that are neither sources nor sinks of the label: of
	// servers to which a run may write what its shadow does not, or that only a shadow asks.
	closed bool
}

// generate makes a program for a label: it has to do with it more often than with others.
func generate(seed uint64, label int, closed bool) *program {
	r := rand.New(rand.NewPCG(seed, 11))
	p := &program{}
	for i := range p.parts {
		g := &generator{Rand: r, left: 2 + r.IntN(5), parts: 1 - i, label: label, closed: closed}
		p.parts[i] = g.block()
	}
	g := &generator{Rand: r, left: 4 + r.IntN(14), parts: 2, label: label, closed: closed}
	for range 1 + r.IntN(2) {
		p.main = append(p.main, g.reading())
	}
	for g.left > 0 {
		p.main = append(p.main, g.statement(0))
	}
	return p
}

func (g *generator) pick(all ...string) string { return all[g.IntN(len(all))] }

func (g *generator) variable() string { return g.pick("a", "b", "c", "d") }

// words are the texts of programs and of answers.
var words = []string{"x", "yes", "no", "basic", "gold", "k", "m1", "A-1"}

// value is an expression for anything.
func (g *generator) value() string {
	v := g.variable()
	switch g.IntN(20) {
	case 0:
		return fmt.Sprintf("%q", words[g.IntN(len(words))])
	case 1:
		return fmt.Sprint(g.IntN(4))
	case 2:
		return "num(" + v + ")"
	case 3:
		return fmt.Sprintf("txt(%s)[:%d]", v, 1+g.IntN(3))
	case 4:
		return fmt.Sprintf("at(%s, %q)", v, g.pick("body", "subject", "messages", "value", "plan", "seats", "title", "text", "id", "results", "n", "keys"))
	case 5:
		return g.pick("num("+v+") % 2", "num("+v+") + num("+g.variable()+")", "num("+v+") * 2")
	case 6:
		return fmt.Sprintf("%q + txt(%s)", words[g.IntN(len(words))], v)
	case 7:
		return fmt.Sprintf("[%s, %s]", v, g.variable())
	case 8:
		if g.IntN(3) == 0 { // may fail
			return g.pick("int("+v+")", v+".body", v+"['value']", v+"[0]", "sorted("+v+")", "100 // num("+v+")")
		}
	case 9:
		return "(" + g.variable() + " if " + g.condition() + " else " + g.value() + ")"
	}
	return v
}

func (g *generator) condition() string {
	v := g.variable()
	return g.pick(v, "not "+v, "num("+v+") > "+fmt.Sprint(g.IntN(4)), v+" == "+g.variable(),
		fmt.Sprintf("%q in txt(%s)", words[g.IntN(len(words))], v), "num("+v+") % 2 == 0",
		fmt.Sprintf("at(%s, 'plan') == %q", v, words[g.IntN(len(words))]))
}

var oneMember = regexp.MustCompile(`^([a-z_]+\.[a-z_]+)\(([a-z]+)=(.*)\)$`)

// written is an expression that calls a tool. In which order the members are, how a number is
// written, and whether the whole result is wanted, can depend on a value.
func (g *generator) written(call string) string {
	m := oneMember.FindStringSubmatch(call)
	if m == nil || g.IntN(4) > 0 {
		return call
	}
	member := fmt.Sprintf("%q: %s", m[2], m[3])
	return g.pick(
		fmt.Sprintf("%s({%s, 'z': 1} if %s else {'z': 1, %s})", m[1], member, g.condition(), member),
		fmt.Sprintf("%s({%s, 'z': 1 if %s else 1.0})", m[1], member, g.condition()),
		fmt.Sprintf("(%s.raw if %s else %s)({%s})", m[1], g.condition(), m[1], member),
	)
}

// call is an expression that calls a tool.
func (g *generator) call() string {
	switch g.IntN(6) {
	case 0, 1:
		return g.sink()
	case 2, 3:
		return g.source()
	}
	if g.closed {
		return g.pick(g.source(), g.sink())
	}
	value, key := g.value(), g.pick(`"k"`, `"k"`, `"m1"`, "txt("+g.value()+")")
	if g.IntN(9) == 0 {
		return g.pick("backup.put(name="+key+", data="+value+")", "notes.put(key="+key+", value="+value+")", "files.write(path="+key+", text="+value+")")
	}
	return g.written(g.pick(
		"bank.balance(account="+key+")", "db.query(sql="+key+")", "bank.balance(account="+key+")", "deploy.history()", "deploy.status()",
		"chat.members(channel="+key+")", "files.list(dir="+key+")", "jobs.wait(id="+key+")", "github.list_issues()",
		"jobs.start(name="+value+")", "db.insert(row="+value+")",
		"notes.get(key="+key+")", "notes.get(key="+key+")", "notes.keys()", "notes.next()",
	))
}

// source is an expression that calls a source, most often of the label.
func (g *generator) source() string {
	key, feed := g.pick(`"k"`, `"k"`, `"m1"`, "txt("+g.value()+")"), "feed.get()"
	if g.closed { // a shadow does not know that the answer will be labelled
		feed = "mail.count()"
	}
	if (g.label == private) != (!g.closed && g.IntN(5) == 0) {
		return g.pick("mail.read(id="+key+")", "mail.search(query="+key+")", "mail.count()", "crm.get_customer(id="+key+")",
			"files.read_json(path="+key+")", "files.read_text(path="+key+")", "mail.read.raw({'id': "+key+"})", feed)
	}
	return g.pick("web.search(query="+key+")", "github.get_issue(number="+key+")", "web.search.raw({'query': "+key+"})",
		"web.fetch(url="+key+")", strings.ReplaceAll(feed, "mail.count()", "github.get_issue()"))
}

// reading is a statement that reads something with the label.
func (g *generator) reading() *statement {
	read := line("%s = %s", g.variable(), g.source())
	if g.IntN(3) == 0 {
		return read
	}
	return compound([]string{"try:", "except ToolError as e:"}, []*statement{read}, []*statement{line("b = %s", g.pick("e.message", "0", "'none'"))})
}

// sink is an expression that calls a sink, perhaps one that is a source, too.
func (g *generator) sink() string {
	value := g.value()
	if g.IntN(2) == 0 {
		value = fmt.Sprintf("%q", words[g.IntN(len(words))])
	}
	if g.IntN(12) == 0 {
		return g.pick("chat.post({'text': "+value+"}, meta={'com.example/x': "+g.value()+"})",
			"bank.transfer({'to': "+value+"}, timeout=30 + num("+g.variable()+"))")
	}
	if (g.label == private) != (!g.closed && g.IntN(4) == 0) {
		return g.written(g.pick("chat.post(text="+value+")", "chat.post(text="+value+")", "github.comment(body="+value+")",
			"web.fetch(url="+value+")", "mail.send(to="+value+")"))
	}
	return g.written(g.pick("bank.transfer(to="+value+")", "bank.transfer(to="+value+")", "db.delete_rows(id="+value+")", "deploy.release(version="+value+")"))
}

// undoing is a tool that compensates something.
func (g *generator) undoing() string {
	switch {
	case !g.closed:
		return g.pick("chat.post", "bank.transfer", "notes.put", "db.delete_rows")
	case g.label == private:
		return "chat.post"
	}
	return g.pick("bank.transfer", "db.delete_rows")
}

func (g *generator) block() []*statement {
	var all []*statement
	for range 1 + g.IntN(3) {
		all = append(all, g.statement(1))
	}
	return all
}

func line(format string, args ...any) *statement {
	return &statement{heads: []string{fmt.Sprintf(format, args...)}}
}

func compound(heads []string, bodies ...[]*statement) *statement {
	return &statement{heads, bodies}
}

func (g *generator) statement(depth int) *statement {
	g.left--
	if depth < 4 && g.left > 0 && g.IntN(3) == 0 {
		return g.branch()
	}
	v := g.variable()
	switch g.IntN(20) {
	case 0, 1, 2:
		return line("%s", g.sink())
	case 3:
		return line("undo(%s, {'text': %s})", g.undoing(), g.value())
	case 4:
		return g.leave()
	case 5:
		if g.parts > 0 {
			return line("%s = tools.part%d(x=%s)", v, 2-1-g.IntN(g.parts), g.value())
		}
	case 6:
		return line("%s = parallel([lambda: %s, lambda: %s])", v, g.call(), g.call())
	case 7:
		return line("%s = parallel_map(lambda x: %s, seq(%s), errors='collect')", v,
			strings.ReplaceAll(g.call(), g.pick("a", "b")+")", "x)"), g.variable())
	case 8:
		if g.parts > 0 {
			return line("parallel([lambda: tools.part1(x=%s), lambda: %s])", g.value(), g.call())
		}
	case 9, 10:
		return line("%s = %s", v, g.value())
	case 11:
		return line("print(%s)", g.value())
	}
	return line("%s = %s", v, g.call())
}

// leave ends something early.
func (g *generator) leave() *statement {
	options := []string{"fail('stop')", "commit()", "raise ValueError(txt(" + g.value() + "))", "return [" + g.variable() + "]"}
	if g.loops > 0 {
		options = append(options, "break", "continue", "break")
	}
	if g.IntN(2) == 0 {
		return compound([]string{"if " + g.condition() + ":"}, []*statement{line("%s", g.pick(options...))})
	}
	return line("%s", g.sink())
}

// branch is a statement with others in it.
func (g *generator) branch() *statement {
	switch g.IntN(9) {
	case 0, 1, 2:
		return compound([]string{"if " + g.condition() + ":", "else:"}, g.block(), g.block())
	case 3:
		return compound([]string{"if " + g.condition() + ":"}, g.block())
	case 4:
		return g.loop("for " + g.variable() + " in seq(" + g.value() + "):")
	case 5:
		return g.loop("for " + g.variable() + " in range(num(" + g.variable() + ") % 4):")
	case 6:
		name := fmt.Sprintf("f%d", g.IntN(1000))
		loops := g.loops
		g.loops = 0 // a function is no place for break
		body := append([]*statement{line("global a, b, c, d")}, g.block()...)
		g.loops = loops
		// The second part calls the function in two branches.
		s := compound([]string{"def " + name + "():", "if True:"}, body, []*statement{line("parallel([%s, %s])", name, name)})
		return s
	}
	handler := g.block()
	if g.IntN(2) == 0 {
		handler = append([]*statement{line("%s = e.message", g.variable())}, handler...)
	}
	s := compound([]string{"try:", "except " + g.pick("Exception", "ToolError", "Exception") + " as e:"}, g.block(), handler)
	if g.IntN(4) == 0 {
		s.heads, s.bodies = append(s.heads, "finally:"), append(s.bodies, g.block())
	}
	return s
}

func (g *generator) loop(head string) *statement {
	g.loops++
	defer func() { g.loops-- }()
	return compound([]string{head}, g.block())
}

// shrink makes a program smaller for which fails is true, and which it is still true for. It
// asks at most most times.
func shrink(p *program, most int, fails func(*program) bool) *program {
	for again := true; again; {
		again = false
		for _, list := range p.lists() {
			for i := 0; i < len(*list); i++ {
				was := *list
				for _, smaller := range replacements(was, i) {
					if most--; most < 0 {
						*list = was
						return p
					}
					if *list = smaller; fails(p) {
						was, again = smaller, true
						i--
						break
					}
				}
				*list = was
				if again {
					break
				}
			}
			if again {
				break // the lists are others now
			}
		}
	}
	return p
}

// lists are all lists of statements in a program, the longest ones first.
func (p *program) lists() (all []*[]*statement) {
	var walk func(list *[]*statement)
	walk = func(list *[]*statement) {
		all = append(all, list)
		for _, s := range *list {
			for i := range s.bodies {
				walk(&s.bodies[i])
			}
		}
	}
	walk(&p.main)
	for i := range p.parts {
		walk(&p.parts[i])
	}
	return all
}

// replacements are lists in which statement i is missing, or is one of its bodies.
func replacements(list []*statement, i int) (all [][]*statement) {
	without := append(slices.Clone(list[:i]), list[i+1:]...)
	all = append(all, without)
	for _, body := range list[i].bodies {
		all = append(all, slices.Insert(slices.Clone(without), i, body...))
	}
	return all
}
