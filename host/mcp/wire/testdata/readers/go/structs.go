package main

import (
	jsonv1 "encoding/json"
	"encoding/json/jsontext"
	"encoding/json/v2"
)

// object has a field for each name in a path.
type object struct {
	Method          jsontext.Value `json:"method"`
	Params          jsontext.Value `json:"params"`
	Result          jsontext.Value `json:"result"`
	Error           jsontext.Value `json:"error"`
	Name            jsontext.Value `json:"name"`
	URI             jsontext.Value `json:"uri"`
	Cursor          jsontext.Value `json:"cursor"`
	Level           jsontext.Value `json:"level"`
	Logger          jsontext.Value `json:"logger"`
	Mode            jsontext.Value `json:"mode"`
	Status          jsontext.Value `json:"status"`
	Type            jsontext.Value `json:"type"`
	Ref             jsontext.Value `json:"ref"`
	Task            jsontext.Value `json:"task"`
	TaskID          jsontext.Value `json:"taskId"`
	ElicitationID   jsontext.Value `json:"elicitationId"`
	RequestState    jsontext.Value `json:"requestState"`
	ProtocolVersion jsontext.Value `json:"protocolVersion"`
	ClientInfo      jsontext.Value `json:"clientInfo"`
	NextCursor      jsontext.Value `json:"nextCursor"`
	ResultType      jsontext.Value `json:"resultType"`
	Message         jsontext.Value `json:"message"`
	ProgressToken   jsontext.Value `json:"progressToken"`
	Meta            jsontext.Value `json:"_meta"`
	Related         jsontext.Value `json:"io.modelcontextprotocol/related-task"`
}

// fields returns the fields of object by name.
var fields = map[string]func(*object) jsontext.Value{
	"method":                               func(o *object) jsontext.Value { return o.Method },
	"params":                               func(o *object) jsontext.Value { return o.Params },
	"result":                               func(o *object) jsontext.Value { return o.Result },
	"error":                                func(o *object) jsontext.Value { return o.Error },
	"name":                                 func(o *object) jsontext.Value { return o.Name },
	"uri":                                  func(o *object) jsontext.Value { return o.URI },
	"cursor":                               func(o *object) jsontext.Value { return o.Cursor },
	"level":                                func(o *object) jsontext.Value { return o.Level },
	"logger":                               func(o *object) jsontext.Value { return o.Logger },
	"mode":                                 func(o *object) jsontext.Value { return o.Mode },
	"status":                               func(o *object) jsontext.Value { return o.Status },
	"type":                                 func(o *object) jsontext.Value { return o.Type },
	"ref":                                  func(o *object) jsontext.Value { return o.Ref },
	"task":                                 func(o *object) jsontext.Value { return o.Task },
	"taskId":                               func(o *object) jsontext.Value { return o.TaskID },
	"elicitationId":                        func(o *object) jsontext.Value { return o.ElicitationID },
	"requestState":                         func(o *object) jsontext.Value { return o.RequestState },
	"protocolVersion":                      func(o *object) jsontext.Value { return o.ProtocolVersion },
	"clientInfo":                           func(o *object) jsontext.Value { return o.ClientInfo },
	"nextCursor":                           func(o *object) jsontext.Value { return o.NextCursor },
	"resultType":                           func(o *object) jsontext.Value { return o.ResultType },
	"message":                              func(o *object) jsontext.Value { return o.Message },
	"progressToken":                        func(o *object) jsontext.Value { return o.ProgressToken },
	"_meta":                                func(o *object) jsontext.Value { return o.Meta },
	"io.modelcontextprotocol/related-task": func(o *object) jsontext.Value { return o.Related },
}

// strict is encoding/json/v2 with its defaults: names must match exactly and be unique.
func strict(message []byte, path []string) any {
	return look(message, path, func(b []byte, v any) error { return json.Unmarshal(b, v) })
}

// anyCase is encoding/json/v2 with lenient options: it ignores case, '_' and '-' in
// names. It does not apply to results (see Shape in host/mcp/wire).
func anyCase(message []byte, path []string) any {
	if path[0] == "result" || path[0] == "error" {
		return true
	}
	lenient := json.JoinOptions(json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return look(message, path, func(b []byte, v any) error { return json.Unmarshal(b, v, lenient) })
}

// version1 is encoding/json on top of encoding/json/v2.
func version1(message []byte, path []string) any { return look(message, path, jsonv1.Unmarshal) }

// look returns what is at a path, using one struct for each object on the way.
func look(value []byte, path []string, unmarshal func([]byte, any) error) any {
	for _, name := range path {
		if jsontext.Value(value).Kind() != '{' {
			return nil
		}
		var o object
		if unmarshal(value, &o) != nil {
			return true
		}
		value = fields[name](&o)
	}
	if jsontext.Value(value).Kind() != '"' {
		return nil
	}
	var text string
	if unmarshal(value, &text) != nil {
		return true
	}
	return text
}
