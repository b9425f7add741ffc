package interp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// While a run is planned, the host withholds the answers of some calls. A script can pass a
// withheld answer on, but a look into the answer ends the run: the next actions of the script would
// depend on unknown content.

// withheld is an unknown answer. Most ways to look into a value cannot fail, for example Truth, and
// scripts must not catch the end of the run. So they panic, and exec turns the panic into an error.
type withheld struct {
	run    *run
	number string // decimal
}

var (
	_ starlark.Comparable = (*withheld)(nil)
	_ starlark.HasAttrs   = (*withheld)(nil)
)

func (w *withheld) String() string       { panic(w.look("its text is needed")) }
func (w *withheld) Type() string         { panic(w.look("its type or what is in it is needed")) }
func (*withheld) Freeze()                {}
func (w *withheld) Truth() starlark.Bool { panic(w.look("it decides what comes next")) }
func (w *withheld) Hash() (uint32, error) {
	panic(w.look("it is a key of a dict, or in a set"))
}

// CompareSameType implements starlark.Comparable.
func (w *withheld) CompareSameType(syntax.Token, starlark.Value, int) (bool, error) {
	panic(w.look("it is compared"))
}

// Attr implements starlark.HasAttrs.
func (w *withheld) Attr(name string) (starlark.Value, error) {
	panic(w.look(fmt.Sprintf("its %q is needed", name)))
}

// AttrNames implements starlark.HasAttrs.
func (w *withheld) AttrNames() []string { panic(w.look("what is in it is needed")) }

// lookedInto is the panic of a look into a withheld answer.
type lookedInto struct{ err *abi.Error }

// look returns the panic, with the position of the script. No call can be made afterwards.
func (w *withheld) look(why string) *lookedInto {
	r := w.run
	err := &abi.Error{
		Type:    abi.ErrWithheld,
		Message: fmt.Sprintf("the answer of write %s is not known yet, and %s here", w.number, why),
	}
	stack := scriptFrames(r.current.CallStack())
	err.Position = r.innermost(stack)
	r.setFatal(&fatalError{message: err.Message})
	return &lookedInto{err}
}

// errorOfLook sets *err after the panic of a look into a withheld answer. Any other panic goes on.
func errorOfLook(err **abi.Error) {
	switch p := recover().(type) {
	case nil:
	case *lookedInto:
		*err = p.err
	default:
		panic(p)
	}
}

// mustLook panics if a value is withheld: for functions that would answer without a method of the
// value, about the wrong value.
func mustLook(values ...starlark.Value) {
	for _, v := range values {
		if w, ok := v.(*withheld); ok {
			panic(w.look("something is asked about it"))
		}
	}
}

// shown returns the text for the answer in output for people.
func (w *withheld) shown() string { return "<the answer of write " + w.number + ">" }

// printable returns the arguments of print. A withheld answer is marked: printed text does not
// change the script's actions.
func printable(args starlark.Tuple) starlark.Tuple {
	shown := slices.Clone(args)
	for i, v := range args {
		if w, ok := v.(*withheld); ok {
			shown[i] = starlark.String(w.shown())
		}
	}
	return shown
}

// withheldIn returns the value for a string of the host; nil for ordinary strings.
func (r *run) withheldIn(s string) starlark.Value {
	if r == nil || r.marker == "" {
		return nil
	}
	number, ok := strings.CutPrefix(s, r.marker)
	if n, err := strconv.Atoi(number); !ok || err != nil || n < 1 || strconv.Itoa(n) != number {
		return nil
	}
	return &withheld{run: r, number: strings.Clone(number)}
}

// decode is decodeJSON for messages of the host, possibly with withheld answers.
func (r *run) decode(data []byte) (starlark.Value, error) {
	d := decoder{text: stringOf(data)}
	if r.marker != "" {
		d.run = r
	}
	return d.whole()
}

// encode is encodeJSON for messages to the host, possibly with withheld answers.
func (r *run) encode(root string, v starlark.Value) ([]byte, error) {
	return (&encoder{limit: abi.MaxMessage, run: r}).encode(root, v)
}

const (
	// guardKey is the key of the number of statements around a thread's running code that can catch
	// errors.
	guardKey = "guards"
	// resumerKey is the key of the thread waiting for this thread.
	resumerKey = "resumed by"
)

// guard marks errors on a thread as catchable, until the result is called. It only acts in a
// planned run.
func (r *run) guard(thread *starlark.Thread) (leave func()) {
	if r.marker == "" {
		return func() {}
	}
	n, _ := thread.Local(guardKey).(int)
	thread.SetLocal(guardKey, n+1)
	return func() { thread.SetLocal(guardKey, n) }
}

// resumedBy notes which thread gets the errors of another thread.
func (r *run) resumedBy(thread, outer *starlark.Thread) {
	if r.marker != "" {
		thread.SetLocal(resumerKey, outer)
	}
}

// guarded reports whether the script could catch an error of a thread. The result is false in an
// unplanned run.
func (r *run) guarded(thread *starlark.Thread) bool {
	if r.marker == "" {
		return false
	}
	for thread != nil {
		if n, _ := thread.Local(guardKey).(int); n > 0 {
			return true
		}
		thread, _ = thread.Local(resumerKey).(*starlark.Thread)
	}
	return false
}
