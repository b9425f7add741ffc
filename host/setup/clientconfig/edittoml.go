package clientconfig

import (
	"bytes"

	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// setCodex returns text, whose tree is root, with the table of the entry. Keys of the table that
// the product does not set stay.
func setCodex(text []byte, root *object, path []string, e *Entry) (_ []byte, err error) {
	edited := string(bytes.TrimPrefix(text, utf8BOM))
	set := func(value any, keys ...string) {
		if err == nil {
			edited, err = tomldoc.Set(edited, append(path[:len(path):len(path)], keys...), value)
		}
	}
	if root.at(path...) == nil {
		set(e.toml())
		return withBOM(text, edited), err
	}
	set(e.Command, "command")
	set(orEmpty(e.Args), "args")
	for _, s := range e.Env {
		set(s.Value, "env", s.Name)
	}
	if e.Pass != nil {
		set(e.Pass, "env_vars")
	}
	enable(root.at(path...), set)
	return withBOM(text, edited), err
}

// toml returns the entry as a table of Codex.
func (e *Entry) toml() tomldoc.InlineTable {
	t := tomldoc.InlineTable{{Key: "command", Value: e.Command}, {Key: "args", Value: orEmpty(e.Args)}}
	if e.Pass != nil {
		t = append(t, tomldoc.Entry{Key: "env_vars", Value: e.Pass})
	}
	if len(e.Env) > 0 {
		var env tomldoc.InlineTable
		for _, s := range e.Env {
			env = append(env, tomldoc.Entry{Key: s.Name, Value: s.Value})
		}
		t = append(t, tomldoc.Entry{Key: "env", Value: env})
	}
	return t
}

// removeTOML returns text without the table at path, and whether the table existed.
func removeTOML(text []byte, path []string) (_ []byte, removed bool, err error) {
	root, err := readTOML(text)
	if err != nil {
		return nil, false, err
	}
	parent := root.at(path[:len(path)-1]...)
	if parent == nil || parent.fields[path[len(path)-1]] == nil {
		return text, false, nil
	}
	edited, err := tomldoc.Remove(string(bytes.TrimPrefix(text, utf8BOM)), path)
	if err != nil {
		return nil, false, err
	}
	return withBOM(text, edited), true, nil
}

// withBOM gives an edited text the byte order mark of the original.
func withBOM(text []byte, edited string) []byte {
	if bytes.HasPrefix(text, utf8BOM) {
		edited = string(utf8BOM) + edited
	}
	return []byte(edited)
}
