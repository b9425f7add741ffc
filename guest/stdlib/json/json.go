// Package json is Python's module json.
//
//	json.go    the module
//	decode.go  from JSON to values
//	encode.go  from values to JSON
package json

import (
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// maxDepth is how deep JSON may be nested, both ways.
const maxDepth = 1000

// Module returns the module json.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{"loads": loads, "load": load, "dumps": dumps, "dump": dump})
	members["JSONDecodeError"] = stdlib.ErrorClass(decodeErrorClass, stdlib.ValueError)
	return &stdlib.Module{Name: "json", Members: members}
}

// hooks are functions of the script that make values; nil for missing ones.
type hooks struct {
	object, pairs, float, integer, constant starlark.Value
}

func loads(c *stdlib.Call) (starlark.Value, error) {
	var text starlark.Value
	h, err := unpackHooks(c, "s", &text)
	if err != nil {
		return nil, err
	}
	return decode(c, text, h)
}

// load reads the JSON of a file-like value, for example an io.StringIO.
func load(c *stdlib.Call) (starlark.Value, error) {
	var file starlark.Value
	h, err := unpackHooks(c, "fp", &file)
	if err != nil {
		return nil, err
	}
	text, err := c.CallMethod(file, "read")
	if err != nil {
		return nil, err
	}
	return decode(c, text, h)
}

func unpackHooks(c *stdlib.Call, name string, subject *starlark.Value) (h hooks, err error) {
	var class starlark.Value
	err = c.Unpack(name, subject, "*", nil, "cls??", &class, "object_hook??", &h.object, "parse_float??", &h.float,
		"parse_int??", &h.integer, "parse_constant??", &h.constant, "object_pairs_hook??", &h.pairs)
	if err == nil && class != nil {
		err = c.Errorf(stdlib.TypeError, "cls is not supported: use object_hook")
	}
	return h, err
}

func decode(c *stdlib.Call, v starlark.Value, h hooks) (starlark.Value, error) {
	var text string
	switch v := v.(type) {
	case starlark.String:
		text = string(v)
	case starlark.Bytes:
		text = string(v)
	case stdlib.DictLike, *starlark.List:
		return v, nil // an answer of a tool, which is decoded already
	default:
		return nil, stdlib.Errorf(stdlib.TypeError, "the JSON object must be str, bytes or bytearray, not %s", stdlib.TypeName(v))
	}
	d := decoder{call: c, text: text, hooks: h}
	return d.document()
}

func dumps(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	e, err := unpackLayout(c, "obj", &v)
	if err != nil {
		return nil, err
	}
	if err := e.value(v); err != nil {
		return nil, err
	}
	return starlark.String(e.out), nil
}

// dump writes to a file-like value.
func dump(c *stdlib.Call) (starlark.Value, error) {
	var v, file starlark.Value
	e, err := unpackLayout(c, "obj", &v, "fp", &file)
	if err != nil {
		return nil, err
	}
	if err := e.value(v); err != nil {
		return nil, err
	}
	_, err = c.CallMethod(file, "write", starlark.String(e.out))
	return starlark.None, err
}

func unpackLayout(c *stdlib.Call, subject ...any) (*encoder, error) {
	e := &encoder{call: c, ascii: true, nan: true}
	var indent, separators, class starlark.Value
	circular := true
	pairs := append(subject, "*", nil, "skipkeys?", &e.skip, "ensure_ascii?", &e.ascii, "check_circular?", &circular,
		"allow_nan?", &e.nan, "cls??", &class, "indent??", &indent, "separators??", &separators, "default??", &e.fallback, "sort_keys?", &e.sort)
	if err := c.Unpack(pairs...); err != nil {
		return nil, err
	}
	if class != nil {
		return nil, c.Errorf(stdlib.TypeError, "cls is not supported: use default")
	}
	return e, e.layout(c, indent, separators)
}
