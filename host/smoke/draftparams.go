package smoke

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// draftedParams are arguments for a tool without earlier calls.
type draftedParams struct {
	args   []byte // the JSON object
	text   string // the arguments as a TOML value, with empty values for a person to replace; "" for none
	reason string // the task for a person before the tool can be called; "" for none
}

// maxDraftedParams bounds the text of arguments, in bytes.
const maxDraftedParams = 2000

// draftParams finds arguments that are valid for a schema: the required arguments, with the values
// of the schema itself. draftParams invents no values, because a tool could do anything with them.
func draftParams(schema []byte) draftedParams {
	compiled, err := tools.CompileInputSchema(schema, "inputSchema")
	if err != nil {
		return draftedParams{reason: "its inputSchema cannot be used, so give it params, and remove this line"}
	}
	var object, shown wire.Object
	var missing []string
	for _, name := range requiredOf(schema) {
		property, _ := wire.Get(schema, "properties", name)
		value, ok := givenValue(property)
		if !ok {
			missing = append(missing, name)
			value = emptyValue(property)
		} else {
			object.Raw(name, value)
		}
		shown.Raw(name, value)
	}
	d := draftedParams{args: object.Bytes()}
	// Strings of a file cannot have a NUL.
	if text, err := tomlValue(shown.Bytes()); err == nil && text != "{}" && len(text) <= maxDraftedParams && !strings.Contains(text, `\u0000`) {
		d.text = text
	}
	valid := compiled.ValidateArguments(object.Bytes(), nil) == nil
	switch {
	case len(missing) > 0:
		d.reason = fmt.Sprintf("give it values for %s, and remove this line", strings.Join(missing, ", "))
	case !valid || d.text == "" && len(requiredOf(schema)) > 0:
		d.reason = "give it params, and remove this line"
	}
	return d
}

// requiredOf returns the names of the required properties, in order.
func requiredOf(schema []byte) []string {
	raw, _ := wire.Get(schema, "required")
	var names []string
	_ = jsonvalue.Unmarshal(raw, &names) // none, unless raw is an array of strings
	return names
}

// givenValue returns a value in the schema of a property.
func givenValue(property []byte) ([]byte, bool) {
	for _, key := range []string{"const", "default"} {
		if value, ok := wire.Get(property, key); ok {
			return usable(value)
		}
	}
	for _, key := range []string{"examples", "enum"} {
		list, _ := wire.Get(property, key)
		if items, err := wire.Elements(list); err == nil && len(items) > 0 {
			return usable(items[0])
		}
	}
	return nil, false
}

// usable reports whether a value can be written as TOML.
func usable(value []byte) ([]byte, bool) {
	_, err := tomlValue(value)
	return value, err == nil
}

// emptyValue returns a value for a person to replace.
func emptyValue(property []byte) []byte {
	kind, _ := wire.GetString(property, "type")
	switch kind {
	case "number", "integer":
		return []byte("0")
	case "boolean":
		return []byte("false")
	case "array":
		return []byte("[]")
	case "object":
		return []byte("{}")
	}
	return []byte(`""`)
}
