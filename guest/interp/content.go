package interp

import (
	"encoding/base64"
	"errors"
	"fmt"

	"go.starlark.net/starlark"
)

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
