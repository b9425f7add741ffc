package interp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/mcp-metatool/mcp-metatool/guest/parse"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
)

// ownModules are modules in need of this package.
var ownModules = []*stdlib.Module{
	{Name: "__future__", Members: noMeaning("__future__", "annotations division generators print_function unicode_literals with_statement")},
	{Name: "typing", Members: noMeaning("typing", "Any AnyStr Awaitable Callable ClassVar Collection Container DefaultDict Deque Dict Final FrozenSet Generator Generic Hashable Iterable Iterator List Literal Mapping MutableMapping MutableSequence NoReturn Optional OrderedDict ParamSpec Protocol Self Sequence Set Sized SupportsFloat SupportsInt Text Tuple Type TypeAlias TypeVar Union")},
	{Name: "collections.abc", Members: noMeaning("collections.abc", "Callable Collection Container Generator Hashable Iterable Iterator Mapping MutableMapping MutableSequence Sequence Set Sized")},
	{Name: "abc", Members: starlark.StringDict{
		"ABC": placeholder{"ABC"}, "ABCMeta": placeholder{"ABC"},
		"abstractmethod": starlark.NewBuiltin("abstractmethod", sameArgument),
	}},
	{Name: "dataclasses", Members: starlark.StringDict{
		"dataclass": starlark.NewBuiltin("dataclass", dataclassBuiltin), "field": starlark.NewBuiltin("field", fieldBuiltin),
		"asdict": starlark.NewBuiltin("asdict", dataFunction), "astuple": starlark.NewBuiltin("astuple", dataFunction),
		"fields": starlark.NewBuiltin("fields", dataFunction), "is_dataclass": starlark.NewBuiltin("is_dataclass", dataFunction),
		"replace": starlark.NewBuiltin("replace", dataFunction),
	}},
	{Name: "enum", Members: starlark.StringDict{
		"Enum": enumClass, "IntEnum": intEnumClass, "StrEnum": strEnumClass,
		"auto": starlark.NewBuiltin("auto", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return autoValue{}, nil
		}),
		"unique": starlark.NewBuiltin("unique", sameArgument),
	}},
}

func init() {
	typing := ownModules[1].Members
	for _, name := range strings.Fields("cast overload final runtime_checkable no_type_check") {
		typing[name] = starlark.NewBuiltin(name, sameArgument)
	}
	typing["TYPE_CHECKING"] = starlark.False
	typing["NamedTuple"] = namedTupleBase{placeholder{"typing.NamedTuple"}}
	typing["TypedDict"] = typedDictBase{placeholder{"typing.TypedDict"}}
}

// sameArgument returns the last argument.
func sameArgument(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 {
		return nil, stdlib.Errorf(stdlib.TypeError, "%s takes an argument", b.Name())
	}
	return args[len(args)-1], nil
}

// placeholder is a name for type checkers only.
type placeholder struct{ name string }

var (
	_ starlark.Mapping   = placeholder{}
	_ starlark.Callable  = placeholder{}
	_ starlark.HasBinary = placeholder{}
)

func noMeaning(module, names string) starlark.StringDict {
	out := make(starlark.StringDict)
	for _, name := range strings.Fields(names) {
		out[name] = placeholder{module + "." + name}
	}
	return out
}

func (p placeholder) String() string        { return p.name }
func (placeholder) Type() string            { return "typing" }
func (placeholder) Freeze()                 {}
func (placeholder) Truth() starlark.Bool    { return true }
func (p placeholder) Hash() (uint32, error) { return starlark.String(p.name).Hash() }
func (p placeholder) Name() string          { return p.name }

// Get is List[int].
func (p placeholder) Get(starlark.Value) (starlark.Value, bool, error) { return p, true, nil }

// CallInternal is TypeVar("T") and the like.
func (p placeholder) CallInternal(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return p, nil
}

// Binary is List[int] | None.
func (p placeholder) Binary(op syntax.Token, _ starlark.Value, _ starlark.Side) (starlark.Value, error) {
	if op == syntax.PIPE {
		return p, nil
	}
	return nil, nil
}

// The base classes from typing with a meaning at run time.

// namedTupleBase is NamedTuple.
type namedTupleBase struct{ placeholder }

// makeClass makes a class of tuples of the annotated fields.
func (namedTupleBase) makeClass(_ *starlark.Thread, c *class) (starlark.Value, error) {
	var fields []string
	var defaults []starlark.Value
	list, _ := c.members[parse.Annotations].(*starlark.List)
	if list != nil {
		for _, e := range listElems(list) {
			name := string(e.(starlark.String))
			v, hasDefault := c.members[name]
			switch {
			case hasDefault:
				defaults = append(defaults, v)
			case len(defaults) > 0:
				return nil, stdlib.Errorf(stdlib.TypeError, "class %s: the field %s has no default, but one before it has", c.name, name)
			}
			fields = append(fields, name)
		}
	}
	t := collections.NewTupleType(c.name, fields, defaults...)
	t.Member = func(x starlark.Value, name string) (starlark.Value, error) {
		return tupleMember(c, t, x, name)
	}
	return t, nil
}

// tupleMember returns a member of a class derived from NamedTuple, for the resulting class of
// tuples t, or for a tuple of t.
func tupleMember(c *class, t, x starlark.Value, name string) (starlark.Value, error) {
	switch v := c.find(name).(type) {
	case *classMethod:
		return &boundMethod{v.fn, t}, nil
	case *staticMethod:
		return v.fn, nil
	case *property:
		if x != t {
			return c.run.callback(v.fn, starlark.Tuple{x})
		}
		return v, nil
	case *starlark.Function:
		if x != t {
			return &boundMethod{v, x}, nil
		}
		return v, nil
	default:
		return v, nil
	}
}

// CallInternal is NamedTuple("Name", [("field", type)]).
func (namedTupleBase) CallInternal(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name string
	var fields starlark.Value
	if err := starlark.UnpackPositionalArgs("NamedTuple", args, kwargs, 2, &name, &fields); err != nil {
		return nil, err
	}
	var names []string
	err := each(fields, func(x starlark.Value) error {
		pair, ok := x.(starlark.Tuple)
		if !ok || len(pair) != 2 {
			return stdlib.Errorf(stdlib.TypeError, "NamedTuple: got %s, want pairs of a name and a type", repr(x))
		}
		field, ok := starlark.AsString(pair[0])
		if !ok {
			return stdlib.Errorf(stdlib.TypeError, "NamedTuple: %s is not a name", repr(pair[0]))
		}
		names = append(names, field)
		return nil
	})
	return collections.NewTupleType(name, names), err
}

// typedDictBase is TypedDict. Values of derived classes are dicts.
type typedDictBase struct{ placeholder }

func (typedDictBase) makeClass(_ *starlark.Thread, c *class) (starlark.Value, error) {
	return &typedDict{c.name}, nil
}

// typedDict is a class derived from TypedDict, a possible base of other classes.
type typedDict struct{ name string }

var _ classMaker = (*typedDict)(nil)

func (d *typedDict) String() string        { return "<class '" + d.name + "'>" }
func (*typedDict) Type() string            { return "class" }
func (*typedDict) Freeze()                 {}
func (*typedDict) Truth() starlark.Bool    { return true }
func (d *typedDict) Hash() (uint32, error) { return starlark.String(d.name).Hash() }
func (d *typedDict) Name() string          { return d.name }

func (*typedDict) makeClass(_ *starlark.Thread, c *class) (starlark.Value, error) {
	return &typedDict{c.name}, nil
}

// CallInternal makes a dict.
func (*typedDict) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return starlark.Call(thread, starlark.Universe["dict"], args, kwargs)
}

// contentModule makes MCP content blocks (revision 2025-11-25, schema, ContentBlock). Content
// blocks are dicts, as in a tool's raw result. A script that returns content blocks answers with
// the blocks. Binary data stays base64 text.
var contentModule = &module{
	name: "content",
	members: starlark.StringDict{
		"text":     starlark.NewBuiltin("content.text", textBlock),
		"image":    starlark.NewBuiltin("content.image", dataBlock("image", "image/png")),
		"audio":    starlark.NewBuiltin("content.audio", dataBlock("audio", "audio/wav")),
		"resource": starlark.NewBuiltin("content.resource", resourceBlock),
		"link":     starlark.NewBuiltin("content.link", linkBlock),
	},
	instead: map[string]string{"resource_link": "content.link(uri, name=...)", "json": "content.text(json.encode(value))", "file": "content.resource(uri, text=...)"},
}

// block makes a dict of names and values, without nil and None.
func block(pairs ...any) (starlark.Value, error) {
	o := newObject(len(pairs) / 2)
	for i := 0; i < len(pairs); i += 2 {
		v := pairs[i+1]
		if s, ok := v.(string); ok {
			v = starlark.String(s)
		}
		value, ok := v.(starlark.Value)
		if !ok || value == starlark.None {
			continue
		}
		if err := o.SetKey(starlark.String(pairs[i].(string)), value); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func textBlock(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "text", &v); err != nil {
		return nil, err
	}
	return block("type", "text", "text", text(v))
}

// dataBlock is content.image(data, mime_type) or content.audio.
func dataBlock(kind, defaultType string) builtinFunc {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var data starlark.Value
		mimeType, other := defaultType, ""
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "data", &data, "mime_type?", &mimeType, "mimeType?", &other); err != nil {
			return nil, err
		}
		encoded, err := base64Of(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name(), err)
		}
		if other != "" {
			mimeType = other
		}
		return block("type", kind, "data", encoded, "mimeType", mimeType)
	}
}

// base64Of returns binary data as base64. The data is bytes, or base64 text.
func base64Of(data starlark.Value) (string, error) {
	switch data := data.(type) {
	case starlark.Bytes:
		return base64.StdEncoding.EncodeToString([]byte(data)), nil
	case starlark.String:
		if isBase64(string(data)) {
			return string(data), nil
		}
		return "", errors.New("the data is text that is not base64")
	}
	return "", fmt.Errorf("the data must be base64 text or bytes, got %s", data.Type())
}

func isBase64(s string) bool {
	n := len(s)
	for range 2 {
		if n > 0 && s[n-1] == '=' {
			n--
		}
	}
	for i := range n {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return false
		}
	}
	return len(s)%4 == 0
}

// resourceBlock is content.resource(uri, text=None, blob=None, mime_type=None).
func resourceBlock(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var uri string
	var body, blob, mimeType, other starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"uri", &uri, "text??", &body, "blob??", &blob, "mime_type??", &mimeType, "mimeType??", &other); err != nil {
		return nil, err
	}
	if (body == nil) == (blob == nil) {
		return nil, fmt.Errorf("%s: want either text or blob (base64 text, or bytes)", b.Name())
	}
	if mimeType == nil {
		mimeType = other
	}
	var content starlark.Value
	var err error
	if body != nil {
		content, err = block("uri", uri, "mimeType", mimeType, "text", text(body))
	} else {
		var encoded string
		if encoded, err = base64Of(blob); err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name(), err)
		}
		content, err = block("uri", uri, "mimeType", mimeType, "blob", encoded)
	}
	if err != nil {
		return nil, err
	}
	return block("type", "resource", "resource", content)
}

// linkBlock is content.link(uri, name=uri, title=None, description=None,
// mime_type=None).
func linkBlock(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var uri, name string
	var title, description, mimeType, other starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "uri", &uri, "name?", &name, "title??", &title,
		"description??", &description, "mime_type??", &mimeType, "mimeType??", &other); err != nil {
		return nil, err
	}
	if name == "" {
		name = uri
	}
	if mimeType == nil {
		mimeType = other
	}
	return block("type", "resource_link", "uri", uri, "name", name, "title", title, "description", description, "mimeType", mimeType)
}
