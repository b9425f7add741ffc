package cassette

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Keys are the keys of an interaction in TOML, in the order in which they are written:
//
//	tool = "server.tool"   real names, or script names
//	params = { … }         what the arguments are compared with; default: anything
//	match = "subset"       how they are compared; or "exact"
//	returns = …            the value that the script receives
//	text = "…"             the text of the tool's answer, which scripts parse if it is JSON
//	result = { … }         a whole CallToolResult
//	raises = "…"           the message of an error, or { message = "…", details = … }
//	error = { code = … }   a JSON-RPC error object: code, message, data
//	denied = "…"           why the call is not permitted
//	delay = "1s"           the time before the answer
//	times = 1              how often it can be used; 0: any number of times
//
// Each of params, returns, result, error and details can be JSON text instead, under its
// name with the suffix _json.
var Keys = []string{
	"tool", "params", "params_json", "match", "returns", "returns_json", "text", "result", "result_json", "raises",
	"error", "error_json", "denied", "delay", "times",
}

// FromTOML makes an Interaction from a decoded TOML table, with values as
// github.com/BurntSushi/toml decodes them into any. match is the default for a table without the
// key. The error is a *FieldError for the invalid key. Members of TOML tables are sorted by name.
func FromTOML(table map[string]any, match Match) (Interaction, error) {
	f := fields{table: table}
	f.checkKeys(Keys)
	i := Interaction{Match: match}
	i.Server, i.Tool = f.tool()
	i.Params = f.json("params")
	if text, ok := f.text("match"); ok {
		i.Match = Match(text)
	}
	i.Returns, i.Result, i.RPCError = f.json("returns"), f.json("result"), f.json("error")
	if text, ok := f.text("text"); ok {
		if i.Result != nil {
			f.fail("text", "and result are both set (want one of returns, text, result, raises, error and denied)")
		}
		i.Result = TextResult(text)
	}
	i.Raises = f.raises()
	if text, ok := f.text("denied"); ok {
		if i.Denied = text; text == "" {
			f.fail("denied", "is empty (say why the call is denied)")
		}
	}
	i.Delay = f.duration("delay")
	i.Times = f.count("times")
	if f.err != nil {
		return Interaction{}, f.err
	}
	if err := i.Check(); err != nil {
		return Interaction{}, err
	}
	return i, nil
}

// fields reads the keys of a table.
type fields struct {
	table  map[string]any
	prefix string // of keys in messages
	err    error  // the first error
}

func (f *fields) fail(key, format string, args ...any) {
	if f.err == nil {
		f.err = &FieldError{Key: f.prefix + key, Text: fmt.Sprintf(format, args...)}
	}
}

// checkKeys fails if the table has unknown keys.
func (f *fields) checkKeys(known []string) {
	for _, key := range slices.Sorted(maps.Keys(f.table)) {
		if slices.Contains(known, key) {
			continue
		}
		hint := "known here: " + strings.Join(known, ", ")
		if near := nearest.Names(key, known); near != nil {
			hint = fmt.Sprintf("did you mean %s?", near[0])
		}
		f.fail(key, "is an unknown key (%s)", hint)
	}
}

func (f *fields) text(key string) (string, bool) {
	v, ok := f.table[key]
	if !ok {
		return "", false
	}
	text, ok := v.(string)
	if !ok {
		f.fail(key, "is %s, want a string", typeName(v))
	}
	return text, ok
}

// tool splits "server.tool". Names of servers have no dots.
func (f *fields) tool() (server, tool string) {
	name, _ := f.text("tool")
	server, tool, ok := strings.Cut(name, ".")
	if name != "" && (!ok || server == "" || tool == "") {
		f.fail("tool", `is %q, want "server.tool"`, name)
	}
	return server, tool
}

// json returns the value under a key, or the JSON text under the key with _json.
func (f *fields) json(key string) []byte {
	v, plain := f.table[key]
	text, other := f.text(key + "_json")
	switch {
	case plain && other:
		f.fail(key, "and %s_json are both set", key)
	case plain:
		raw, err := rawJSON(v)
		if err != nil {
			f.fail(key, "%v", err)
		}
		return raw
	case other:
		if err := checkJSON(text); err != nil {
			if err.Key = f.prefix + key + "_json"; f.err == nil {
				f.err = err
			}
			return nil
		}
		return compact([]byte(text))
	}
	return nil
}

func (f *fields) raises() *Raise {
	v, ok := f.table["raises"]
	if !ok {
		return nil
	}
	switch v := v.(type) {
	case string:
		return &Raise{Message: v}
	case map[string]any:
		sub := fields{table: v, prefix: "raises."}
		sub.checkKeys([]string{"message", "details", "details_json"})
		r := &Raise{Details: sub.json("details")}
		if r.Message, ok = sub.text("message"); !ok {
			sub.fail("message", `is missing (raises = { message = "…" })`)
		}
		if f.err == nil {
			f.err = sub.err
		}
		return r
	}
	f.fail("raises", "is %s, want a string or a table with message and details", typeName(v))
	return nil
}

func (f *fields) duration(key string) time.Duration {
	text, ok := f.text(key)
	if !ok {
		return 0
	}
	d, err := units.ParseDuration(text)
	if err != nil {
		f.fail(key, "%q %v", text, err)
	}
	return d
}

func (f *fields) count(key string) int {
	v, ok := f.table[key]
	if !ok {
		return 0
	}
	n, ok := v.(int64)
	switch {
	case !ok:
		f.fail(key, "is %s, want a whole number", typeName(v))
	case n < 0 || n > math.MaxInt32:
		f.fail(key, "is %d, want at least 0 and at most %d", n, math.MaxInt32)
	}
	return int(n)
}

// checkJSON returns an error if text is not valid JSON.
func checkJSON(text string) *FieldError {
	var v json.RawMessage
	err := json.Unmarshal([]byte(text), &v)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return &FieldError{Text: "is not JSON: " + err.Error(), offset: int(syntax.Offset)}
	case err != nil:
		return &FieldError{Text: "is not JSON: " + err.Error()}
	}
	return nil
}

// rawJSON returns a TOML value as JSON.
func rawJSON(v any) ([]byte, error) {
	switch v := v.(type) {
	case map[string]any:
		var o wire.Object
		for _, key := range slices.Sorted(maps.Keys(v)) {
			value, err := rawJSON(v[key])
			if err != nil {
				return nil, err
			}
			o.Raw(key, value)
		}
		return o.Bytes(), nil
	case []map[string]any:
		items := make([]any, len(v))
		for n := range v {
			items[n] = v[n]
		}
		return rawJSON(items)
	case []any:
		items := make([][]byte, len(v))
		for n, item := range v {
			raw, err := rawJSON(item)
			if err != nil {
				return nil, err
			}
			items[n] = raw
		}
		return wire.Array(items), nil
	case string:
		return wire.Quote(v), nil
	case int64:
		return strconv.AppendInt(nil, v, 10), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("has the number %v, which JSON does not have", v)
		}
		return wire.Marshal(v), nil
	}
	return nil, fmt.Errorf("has %s, which JSON does not have (put it in quotes)", typeName(v))
}

// typeName returns a name for the type of a TOML value, for messages.
func typeName(v any) string {
	switch v.(type) {
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "an array"
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a number"
	case bool:
		return "a boolean"
	}
	return "a date or time"
}
