package urllib

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// pairsOf returns the pairs of a mapping or of a sequence.
func pairsOf(c *stdlib.Call, v starlark.Value) ([][]starlark.Value, error) {
	var out [][]starlark.Value
	switch v := v.(type) {
	case stdlib.DictLike:
		for _, kv := range v.Underlying().Items() {
			out = append(out, kv)
		}
		return out, nil
	case starlark.IterableMapping:
		for _, kv := range v.Items() {
			out = append(out, kv)
		}
		return out, nil
	case starlark.String:
		if v != "" {
			return nil, stdlib.Errorf(stdlib.TypeError, "not a valid non-string sequence or mapping object")
		}
	}
	all, err := c.Elements(v)
	if err != nil {
		return nil, stdlib.Errorf(stdlib.TypeError, "not a valid non-string sequence or mapping object")
	}
	for _, pair := range all {
		kv, err := c.Elements(pair)
		if err != nil || len(kv) != 2 {
			return nil, stdlib.Errorf(stdlib.TypeError, "not a valid non-string sequence or mapping object")
		}
		out = append(out, kv)
	}
	return out, nil
}

func urlEncode(c *stdlib.Call) (starlark.Value, error) {
	var query, encoding, errors, via starlark.Value
	doseq, safe := false, ""
	if err := c.Unpack("query", &query, "doseq?", &doseq, "safe?", &safe, "encoding??", &encoding, "errors??", &errors, "quote_via?", &via); err != nil {
		return nil, err
	}
	if err := checkEncoding(encoding, errors); err != nil {
		return nil, err
	}
	pairs, err := pairsOf(c, query)
	if err != nil {
		return nil, err
	}
	escape := func(v starlark.Value) (string, error) {
		s, err := content(c, v)
		if err != nil {
			s = c.Env().Str(v)
		}
		if via == nil {
			return quote(s, safe, true), nil
		}
		out, err := c.Call(via, starlark.String(s), starlark.String(safe))
		if err != nil {
			return "", err
		}
		return c.Env().Str(out), nil
	}
	out := c.Env().NewOutput()
	for _, kv := range pairs {
		key, err := escape(kv[0])
		if err != nil {
			return nil, err
		}
		values := []starlark.Value{kv[1]}
		if _, ok := kv[1].(starlark.String); doseq && !ok {
			if starlark.Len(kv[1]) >= 0 && kv[1].Type() != "bytes" {
				if values, err = c.Elements(kv[1]); err != nil {
					return nil, err
				}
			}
		}
		for _, v := range values {
			text, err := escape(v)
			if err != nil {
				return nil, err
			}
			if out.Len() > 0 {
				key := "&" + key
				err = out.WriteString(key + "=" + text)
			} else {
				err = out.WriteString(key + "=" + text)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return starlark.String(out.String()), nil
}

// parseQuery is parse_qs and parse_qsl.
func parseQuery(c *stdlib.Call) (starlark.Value, error) {
	var v, encoding, errors, most starlark.Value
	blank, strict, separator := false, false, "&"
	err := c.Unpack("qs", &v, "keep_blank_values?", &blank, "strict_parsing?", &strict, "encoding??", &encoding,
		"errors??", &errors, "max_num_fields??", &most, "separator?", &separator)
	if err != nil {
		return nil, err
	}
	if err := checkEncoding(encoding, errors); err != nil {
		return nil, err
	}
	qs, err := content(c, v)
	if err != nil {
		return nil, err
	}
	if separator == "" {
		return nil, stdlib.Errorf(stdlib.ValueError, "Separator must be of type string or bytes.")
	}
	if most != nil {
		n, err := stdlib.Int(most)
		if err != nil {
			return nil, err
		}
		if strings.Count(qs, separator)+1 > n {
			return nil, stdlib.Errorf(stdlib.ValueError, "Max number of fields exceeded")
		}
	}
	list := c.Env().NewValues()
	for _, part := range strings.Split(qs, separator) {
		if part == "" && (!strict || qs == "") {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok && strict {
			return nil, stdlib.Errorf(stdlib.ValueError, "bad query field: %s", c.Env().Repr(starlark.String(part)))
		}
		if !ok && !blank || value == "" && !blank {
			continue
		}
		decode := func(s string) starlark.Value { return starlark.String(unquoteText(strings.ReplaceAll(s, "+", " "))) }
		if err := list.Add(starlark.Tuple{decode(name), decode(value)}); err != nil {
			return nil, err
		}
	}
	if c.Name == "parse_qsl" {
		return list.Value(), nil
	}
	d := c.Env().NewDict(len(list.List))
	for _, v := range list.List {
		kv := v.(starlark.Tuple)
		before, found, err := d.Underlying().Get(kv[0])
		if err != nil {
			return nil, err
		}
		if found {
			err = before.(*starlark.List).Append(kv[1])
		} else {
			err = d.SetKey(kv[0], starlark.NewList([]starlark.Value{kv[1]}))
		}
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}
