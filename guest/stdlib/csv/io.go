package csv

import (
	"bytes"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// IO returns the module io.
func IO() *stdlib.Module {
	made := func(name string, binary bool) *stdlib.Class {
		return &stdlib.Class{
			Named: "io." + name,
			New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
				c := &stdlib.Call{Thread: thread, Name: name, Args: args, Kwargs: kwargs}
				return newFile(c, binary)
			},
			Is: func(v starlark.Value) bool { f, ok := v.(*file); return ok && f.binary == binary },
		}
	}
	return &stdlib.Module{Name: "io", Members: starlark.StringDict{
		"StringIO": made("StringIO", false), "BytesIO": made("BytesIO", true),
		"SEEK_SET": starlark.MakeInt(0), "SEEK_CUR": starlark.MakeInt(1), "SEEK_END": starlark.MakeInt(2),
	}}
}

// file is a StringIO, or a BytesIO if binary. Positions are in bytes here, and in code points for
// scripts with a StringIO.
type file struct {
	env     *stdlib.Env
	content []byte
	pos     int
	binary  bool
	closed  bool
	may     int
}

var (
	_ starlark.HasAttrs = (*file)(nil)
	_ starlark.Iterable = (*file)(nil)
)

func newFile(c *stdlib.Call, binary bool) (starlark.Value, error) {
	f := &file{env: c.Env(), binary: binary}
	var v, newline starlark.Value
	if err := c.Unpack("initial_value??", &v, "newline??", &newline); err != nil || v == nil {
		return f, err
	}
	s, err := f.text(v)
	f.content = []byte(s)
	return f, err
}

func (f *file) text(v starlark.Value) (string, error) {
	if f.binary {
		if b, ok := v.(starlark.Bytes); ok {
			return string(b), nil
		}
		return "", stdlib.Errorf(stdlib.TypeError, "a bytes-like object is required, not '%s'", stdlib.TypeName(v))
	}
	s, ok := starlark.AsString(v)
	if !ok {
		return "", stdlib.Errorf(stdlib.TypeError, "string argument expected, got '%s'", stdlib.TypeName(v))
	}
	return s, nil
}

func (f *file) value(s []byte) starlark.Value {
	if f.binary {
		return starlark.Bytes(s)
	}
	return starlark.String(s)
}

func (f *file) Type() string {
	if f.binary {
		return "BytesIO"
	}
	return "StringIO"
}

func (f *file) String() string      { return "<_io." + f.Type() + " object>" }
func (*file) Freeze()               {}
func (*file) Truth() starlark.Bool  { return true }
func (*file) Hash() (uint32, error) { return 0, nil }
func (*file) AttrNames() []string {
	return []string{"close", "closed", "flush", "getvalue", "read", "readable", "readline", "readlines", "seek", "seekable", "tell", "truncate", "writable", "write", "writelines"}
}

func (f *file) Attr(name string) (starlark.Value, error) {
	if name == "closed" {
		return starlark.Bool(f.closed), nil
	}
	if m := stdlib.Method(f, name, fileMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

func (f *file) open() error {
	if f.closed {
		return stdlib.Errorf(stdlib.ValueError, "I/O operation on closed file")
	}
	return nil
}

// length returns the number of bytes of n characters from pos on, or of all.
func (f *file) length(n int) int {
	rest := f.content[min(f.pos, len(f.content)):]
	if n < 0 || n >= len(rest) {
		return len(rest)
	}
	if f.binary {
		return n
	}
	at := 0
	for ; n > 0 && at < len(rest); n-- {
		_, size := utf8.DecodeRune(rest[at:])
		at += size
	}
	return at
}

func (f *file) take(n int) []byte {
	start := min(f.pos, len(f.content))
	out := f.content[start : start+n]
	f.pos = start + n
	return out
}

// line returns the next line with the line end, empty after the last.
func (f *file) line() []byte {
	rest := f.content[min(f.pos, len(f.content)):]
	if at := bytes.IndexByte(rest, '\n'); at >= 0 {
		return f.take(at + 1)
	}
	return f.take(len(rest))
}

func (f *file) write(s string) error {
	if f.pos > len(f.content) {
		if err := f.env.Charge(f.pos); err != nil {
			return err
		}
		f.content = append(f.content, make([]byte, f.pos-len(f.content))...)
	}
	end := f.pos + len(s)
	if end > f.may {
		f.may = 2*end + 4096
		if err := f.env.Charge(f.may); err != nil {
			return err
		}
	}
	switch {
	case f.pos == len(f.content):
		f.content = append(f.content, s...)
	case f.binary || isASCII(f.content[f.pos:min(end, len(f.content))]) && isASCII([]byte(s)):
		n := copy(f.content[f.pos:], s)
		f.content = append(f.content, s[n:]...)
	default: // as many characters as are written
		old := f.length(utf8.RuneCountInString(s))
		f.content = append(append(append([]byte(nil), f.content[:f.pos]...), s...), f.content[f.pos+old:]...)
	}
	f.pos = end
	return nil
}

func isASCII(s []byte) bool {
	for _, c := range s {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Iterate goes over the remaining lines.
func (f *file) Iterate() starlark.Iterator { return &fileLines{f} }

type fileLines struct{ f *file }

func (it *fileLines) Next(p *starlark.Value) bool {
	line := it.f.line()
	*p = it.f.value(line)
	return len(line) > 0
}

func (*fileLines) Done() {}

// fileMethod is a method of an open file.
func fileMethod(f func(c *stdlib.Call, f *file) (starlark.Value, error)) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		own := c.Receiver.(*file)
		if err := own.open(); err != nil {
			return nil, err
		}
		return f(c, own)
	}
}

func yes(c *stdlib.Call, _ *file) (starlark.Value, error)  { return starlark.True, c.Unpack() }
func none(c *stdlib.Call, _ *file) (starlark.Value, error) { return starlark.None, c.Unpack() }

// size reads an optional number, -1 for none.
func size(c *stdlib.Call) (int, error) {
	n := -1
	err := c.Unpack("size??", &n, "/", nil)
	return n, err
}

var fileMethods = map[string]stdlib.Func{
	"readable": fileMethod(yes), "writable": fileMethod(yes), "seekable": fileMethod(yes), "flush": fileMethod(none),
	"close": func(c *stdlib.Call) (starlark.Value, error) {
		f := c.Receiver.(*file)
		f.closed, f.content = true, nil
		return starlark.None, c.Unpack()
	},
	"getvalue": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) { return f.value(f.content), c.Unpack() }),
	"read": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) {
		n, err := size(c)
		if err != nil {
			return nil, err
		}
		return f.value(f.take(f.length(n))), nil
	}),
	"readline": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) {
		n, err := size(c)
		if err != nil {
			return nil, err
		}
		start := f.pos
		line := f.line()
		if n >= 0 {
			f.pos = start
			line = f.take(min(f.length(n), len(line)))
		}
		return f.value(line), nil
	}),
	"readlines": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) {
		if _, err := size(c); err != nil {
			return nil, err
		}
		list := c.Env().NewValues()
		for line := f.line(); len(line) > 0; line = f.line() {
			if err := list.Add(f.value(line)); err != nil {
				return nil, err
			}
		}
		return list.Value(), nil
	}),
	"write": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) {
		var v starlark.Value
		if err := c.Unpack("s", &v, "/", nil); err != nil {
			return nil, err
		}
		s, err := f.text(v)
		if err != nil {
			return nil, err
		}
		n := len(s)
		if !f.binary {
			n = utf8.RuneCountInString(s)
		}
		return starlark.MakeInt(n), f.write(s)
	}),
	"writelines": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) {
		var v starlark.Value
		if err := c.Unpack("lines", &v, "/", nil); err != nil {
			return nil, err
		}
		return starlark.None, stdlib.Each(v, func(x starlark.Value) error {
			s, err := f.text(x)
			if err != nil {
				return err
			}
			return f.write(s)
		})
	}),
	"tell": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) { return f.tell(), c.Unpack() }),
	"seek": fileMethod(seek),
	"truncate": fileMethod(func(c *stdlib.Call, f *file) (starlark.Value, error) {
		n, err := size(c)
		if err != nil {
			return nil, err
		}
		at := f.pos
		if n >= 0 {
			pos := f.pos
			f.pos = 0
			at, f.pos = f.length(n), pos
		}
		if f.content = f.content[:min(at, len(f.content))]; n < 0 {
			return f.tell(), nil
		}
		return starlark.MakeInt(n), nil
	}),
}

func (f *file) tell() starlark.Value {
	if f.binary || f.pos > len(f.content) {
		return starlark.MakeInt(f.pos)
	}
	return starlark.MakeInt(utf8.RuneCount(f.content[:f.pos]))
}

func seek(c *stdlib.Call, f *file) (starlark.Value, error) {
	var to int
	whence := 0
	if err := c.Unpack("pos", &to, "whence?", &whence, "/", nil); err != nil {
		return nil, err
	}
	const most = 1 << 40
	switch {
	case whence < 0 || whence > 2:
		return nil, stdlib.Errorf(stdlib.ValueError, "Invalid whence (%d, should be 0, 1 or 2)", whence)
	case whence == 0 && (to < 0 || to > most):
		return nil, stdlib.Errorf(stdlib.ValueError, "Negative seek position %d", to)
	case whence == 0:
		f.pos = 0
		if n := f.length(to); n < len(f.content) || f.binary && to <= len(f.content) {
			f.pos = n
		} else { // beyond the end
			f.pos = len(f.content) + max(0, to-utf8.RuneCount(f.content))
		}
	case f.binary && whence == 1:
		f.pos = min(max(f.pos+to, 0), most)
	case f.binary:
		f.pos = min(max(len(f.content)+to, 0), most)
	case to != 0:
		return nil, stdlib.Errorf(stdlib.ValueError, "Can't do nonzero cur-relative seeks")
	case whence == 2:
		f.pos = len(f.content)
	}
	return f.tell(), nil
}
