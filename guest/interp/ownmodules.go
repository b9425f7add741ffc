package interp

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
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
