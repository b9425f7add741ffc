package strict

import "github.com/mcp-metatool/mcp-metatool/host/mcp/wire"

// need is the consequence of a faulty member.
type need uint8

const (
	// optional members are removed.
	optional need = iota
	// partial members are removed if they are null. If they are faulty, the surrounding object is
	// refused: without them the object would change in meaning.
	partial
	// required members must be present.
	required
)

// member is a member of an object read by readers.
type member struct {
	name string // "" for all members without a rule, as the last rule
	need need
	// check reads the value. It returns the fault of the value, to be put behind the path, or "".
	check func(r *reader) string
	// ofObject is set if a value of [], PHP's form of an empty object, is removed.
	ofObject bool
}

// object is a kind of object. Unlisted members can be anything.
type object []member

// The texts with few allowed values.
var (
	roles        = oneOf("user", "assistant")
	themes       = oneOf("light", "dark")
	taskSupports = oneOf("required", "optional", "forbidden")
	objectType   = oneOf("object")
)

// Parts of items.
var (
	icon = object{
		{"src", required, text, false}, {"mimeType", optional, text, false}, {"sizes", optional, listOf(text), false}, {"theme", optional, themes, false},
	}
	annotations = object{
		{"audience", optional, listOf(roles), false}, {"priority", optional, fraction, false}, {"lastModified", optional, moment, false},
	}
	toolAnnotations = object{
		{"title", optional, text, false}, {"readOnlyHint", optional, boolean, false}, {"destructiveHint", optional, boolean, false},
		{"idempotentHint", optional, boolean, false}, {"openWorldHint", optional, boolean, false},
	}
	execution = object{{"taskSupport", optional, taskSupports, false}}
	argument  = object{
		{"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false}, {"required", partial, boolean, false},
	}
	inputSchema  = schema(required, objectType)
	outputSchema = schema(required, objectType)
	// Clients of the stateless era take an output schema of anything.
	outputValue = schema(optional, text)
)

// schema returns the rules of a schema that readers decode. output checks whether a schema can be
// compiled.
func schema(need need, kind func(r *reader) string) object {
	return object{
		{"type", need, kind, false}, {"properties", partial, properties, true}, {"required", partial, listOf(text), false},
		{"$schema", optional, text, false}, {"$defs", partial, anyObject, true}, {"definitions", partial, anyObject, true},
		{"", partial, decoded, false},
	}
}

// Items, by list.
var items = map[wire.Surface]object{
	wire.Tools: {
		{"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false}, {"icons", optional, listOf(icon.read), false},
		{"inputSchema", required, inputSchema.read, false}, {"outputSchema", optional, output, false}, {"annotations", optional, toolAnnotations.read, false},
		{"execution", optional, execution.read, false}, {"_meta", optional, anyObject, false},
		{"defer_loading", optional, boolean, false}, // mcp-go
	},
	wire.Resources: {
		{"uri", required, address, false}, {"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false},
		{"mimeType", optional, text, false}, {"size", optional, integer, false}, {"icons", optional, listOf(icon.read), false},
		{"annotations", optional, annotations.read, false}, {"_meta", optional, anyObject, false},
	},
	wire.Templates: {
		{"uriTemplate", required, addressTemplate, false}, {"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false},
		{"mimeType", optional, text, false}, {"icons", optional, listOf(icon.read), false},
		{"annotations", optional, annotations.read, false}, {"_meta", optional, anyObject, false},
	},
	wire.Prompts: {
		{"name", required, text, false}, {"title", optional, text, false}, {"description", optional, text, false},
		{"arguments", partial, listOf(argument.read), false}, {"icons", optional, listOf(icon.read), false}, {"_meta", optional, anyObject, false},
	},
}
