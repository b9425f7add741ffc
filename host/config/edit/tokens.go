package edit

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// ErrNoToken is matched by errors.Is if the file has no token with that name.
var ErrNoToken = errors.New("there is no token with that name in it")

// The array of the tokens of clients over HTTP.
const (
	httpTable = "http"
	tokenList = "tokens"
)

// AddToken adds a token with a name, by its digest, after those that are there. The error
// is an [*Error].
func (f *File) AddToken(t bearer.Token) error {
	if f.json {
		return f.addTokenJSON(tokenTable(t))
	}
	return f.update(tomldoc.Append(f.text, []string{httpTable, tokenList}, tokenTable(t)))
}

// RemoveToken removes the token with a name. The error is an [*Error], perhaps with
// [ErrNoToken].
func (f *File) RemoveToken(name string) error {
	if f.json {
		return f.removeTokenJSON(name)
	}
	v, _, err := tomldoc.Get(f.text, []string{httpTable, tokenList})
	if err != nil {
		return f.asError(err)
	}
	var items []any
	switch v := v.(type) {
	case []any:
		items = v
	case []map[string]any:
		for _, item := range v {
			items = append(items, item)
		}
	}
	for i, item := range items {
		if table, ok := item.(map[string]any); ok && isNamed(table["name"], name) {
			return f.update(tomldoc.RemoveItem(f.text, []string{httpTable, tokenList}, i))
		}
	}
	return &Error{f.path, fmt.Errorf("token %q: %w", name, ErrNoToken)}
}

// isNamed reports whether the value of a key is the name of a token. Case does not
// distinguish tokens.
func isNamed(value any, name string) bool {
	text, ok := value.(string)
	return ok && strings.EqualFold(text, name)
}

// tokenTable returns a token as it is written.
func tokenTable(t bearer.Token) tomldoc.InlineTable {
	table := tomldoc.InlineTable{{Key: "name", Value: t.Name}, {Key: "sha256", Value: t.Digest.String()}}
	add := func(key string, value any) { table = append(table, tomldoc.Entry{Key: key, Value: value}) }
	if !t.Expires.IsZero() {
		at := t.Expires.UTC()
		text := at.Format(time.RFC3339)
		if at.Equal(at.Truncate(24 * time.Hour)) {
			text = at.Format(time.DateOnly)
		}
		add("expires", text)
	}
	if t.Rights.NoSave {
		add("save", false)
	}
	if len(t.Rights.Expose) > 0 {
		add("expose", t.Rights.Expose)
	}
	if len(t.Rights.Hide) > 0 {
		add("hide", t.Rights.Hide)
	}
	if t.Rights.Own != "" {
		add("tools", "own")
	}
	return table
}

func (f *File) addTokenJSON(table tomldoc.InlineTable) error {
	d, err := f.parseJSON()
	if err != nil {
		return err
	}
	l := layoutOf(d.text)
	item := func(indent string) string { return l.render(rawJSON(table), indent) }
	section, ok := d.root.member(httpTable)
	switch {
	case !ok:
		return f.takeJSON(l.insert(d.text, d.root, func(indent string) string {
			return quoteJSON(httpTable) + ": " + l.render(rawJSON(tomldoc.InlineTable{{Key: tokenList, Value: []any{table}}}), indent)
		}))
	case section.kind != '{':
		return f.wrongForm()
	}
	list, ok := section.member(tokenList)
	switch {
	case !ok:
		return f.takeJSON(l.insert(d.text, section, func(indent string) string {
			return quoteJSON(tokenList) + ": " + l.render(rawJSON([]any{table}), indent)
		}))
	case list.kind != '[':
		return f.wrongForm()
	}
	return f.takeJSON(l.insert(d.text, list, item))
}

func (f *File) wrongForm() error {
	return &Error{f.path, fmt.Errorf("%s.%s: %w", httpTable, tokenList, tomldoc.ErrForm)}
}

func (f *File) removeTokenJSON(name string) error {
	d, err := f.parseJSON()
	if err != nil {
		return err
	}
	if section, ok := d.root.member(httpTable); ok {
		if list, ok := section.member(tokenList); ok {
			for i := range list.items {
				if v, ok := list.items[i].member("name"); ok && v.kind == '"' && isNamed(d.str(v), name) {
					return f.takeJSON(cutChild(d.text, list, i))
				}
			}
		}
	}
	return &Error{f.path, fmt.Errorf("token %q: %w", name, ErrNoToken)}
}
