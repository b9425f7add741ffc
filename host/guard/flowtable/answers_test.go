package flowtable

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// An answer of a case is the value of structuredContent. Of an object, what is missing is as in
// servers.toml. A text, or a list, becomes a block of text. A table with one of these keys is
// something else:
//
//	"$each" = [...]     the answers to the first call, the second, ...; the last one repeats
//	"$by" = "id"        other keys are values of this argument, "*" is any other value
//	"$told" = "memo"    the same with this argument of the last call that told the server something
//	"$only" = {...}     exactly this object
//	"$text" = "..."     this text, without structuredContent
//	"$error" = "..."    a result with isError
//	"$rpc" = "..."      a JSON-RPC error
//	"$hang" = true      no answer until the call is cancelled
//	"$until" = "s.t"    the answer comes once this tool has got a call, or has not for a while
//	"$asked" = "text"   the arguments as they came, in this member
//	"$calls" = "used"   how many calls its server has got, in this member
//	"$meta" = {...}     this is _meta; other keys are the object
type answer struct {
	value       any
	meta        map[string]any
	text        bool   // without structuredContent
	fails       string // the text of an error
	rpc, hangs  bool
	until       string
	isBareValue bool // the object is not completed
}

// choose follows "$each", "$by" and "$told" of an answer for the nth call of a tool, from 1. told
// are the arguments of the last call that told its server something.
func choose(spec any, args, told map[string]any, n int) any {
	for {
		m, ok := spec.(map[string]any)
		if !ok {
			return spec
		}
		if each, ok := m["$each"].([]any); ok {
			spec = each[min(n, len(each))-1]
			continue
		}
		by, from := m["$by"], args
		if by == nil {
			by, from = m["$told"], told
		}
		name, ok := by.(string)
		if !ok {
			return spec
		}
		if spec, ok = m[fmt.Sprint(from[name])]; !ok {
			spec = m["*"]
		}
	}
}

// read makes an answer of what choose has returned.
func read(spec any) (a answer) {
	m, ok := spec.(map[string]any)
	if !ok {
		a.value = spec
		return a
	}
	a.meta, _ = m["$meta"].(map[string]any)
	a.until, _ = m["$until"].(string)
	a.hangs, _ = m["$hang"].(bool)
	if only, ok := m["$only"]; ok {
		a.value, a.isBareValue = only, true
		return a
	}
	if text, ok := m["$text"]; ok {
		a.value, a.text = text, true
		return a
	}
	for _, key := range []string{"$error", "$rpc"} {
		if text, ok := m[key].(string); ok {
			a.fails, a.rpc = text, key == "$rpc"
			return a
		}
	}
	value := map[string]any{}
	for k, v := range m {
		if !strings.HasPrefix(k, "$") {
			value[k] = v
		}
	}
	a.value = value
	return a
}

// complete adds what an object lacks from the usual answer of its tool, and what the objects of
// its lists lack from the first one there.
func (a *answer) complete(usual any) {
	if a.value == nil && a.fails == "" {
		a.value = usual
	}
	if !a.isBareValue {
		a.value = completed(a.value, usual)
	}
}

func completed(value, usual any) any {
	switch all := usual.(type) {
	case map[string]any:
		have, ok := value.(map[string]any)
		if !ok {
			break
		}
		whole := maps.Clone(all)
		for k, v := range have {
			whole[k] = completed(v, all[k])
		}
		return whole
	case []any:
		have, ok := value.([]any)
		if !ok || len(all) == 0 {
			break
		}
		rows := make([]any, len(have))
		for i := range have {
			rows[i] = completed(have[i], all[0])
		}
		return rows
	}
	return value
}

// reply is the answer as the server sends it.
func (a *answer) reply() wire.Reply {
	if a.hangs {
		return wire.Reply{}
	}
	if a.rpc {
		return wire.Reply{Error: wire.Errorf(-32000, "%s", a.fails).Raw()}
	}
	result := map[string]any{}
	if a.meta != nil {
		result["_meta"] = a.meta
	}
	text, isText := a.value.(string)
	switch {
	case a.fails != "":
		text, result["isError"] = a.fails, true
	case !isText:
		text = string(compact(a.value))
		if _, ok := a.value.(map[string]any); ok && !a.text {
			result["structuredContent"] = a.value
		}
	}
	result["content"] = []any{map[string]any{"type": "text", "text": text}}
	return wire.Reply{Result: compact(result)}
}

// compact is JSON with sorted keys.
func compact(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // values come from TOML or JSON
	}
	return raw
}

// plain makes a value of TOML one of maps and lists of anything.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = plain(x)
		}
	case []map[string]any:
		all := make([]any, len(v))
		for i, x := range v {
			all[i] = plain(x)
		}
		return all
	case []any:
		for i, x := range v {
			v[i] = plain(x)
		}
	}
	return v
}

// schemaOf is the schema of values like v.
func schemaOf(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		properties, required := map[string]any{}, []string{}
		for name, x := range v {
			properties[name] = schemaOf(x)
			required = append(required, name)
		}
		return map[string]any{"type": "object", "properties": properties, "required": required}
	case []any:
		if len(v) == 0 {
			return map[string]any{"type": "array"}
		}
		return map[string]any{"type": "array", "items": schemaOf(v[0])}
	case string:
		return map[string]any{"type": "string"}
	case int64:
		return map[string]any{"type": "integer"}
	case float64:
		return map[string]any{"type": "number"}
	case bool:
		return map[string]any{"type": "boolean"}
	}
	return map[string]any{}
}
