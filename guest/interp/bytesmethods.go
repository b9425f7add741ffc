package interp

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Methods of bytes, and encodings.

// bytesMethods has the methods of bytes. Most are methods of text, with a character for each byte.
var bytesMethods = func() map[string]builtinFunc {
	out := map[string]builtinFunc{"decode": bytesDecode, "hex": bytesHex}
	for _, name := range strings.Fields(`capitalize center count endswith expandtabs find index isalnum isalpha isascii
		isdigit islower isspace istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind
		rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase title upper zfill`) {
		out[name] = bytesAsText
	}
	return out
}()

// highByte is added to bytes outside ASCII, which gives characters without any properties: bytes
// have letters and spaces in ASCII only.
const highByte = 0xF0000

// bytesAsText calls the method of text of the same name.
func bytesAsText(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	method, err := starlark.String(bytesText(b.Receiver().(starlark.Bytes))).Attr(b.Name())
	if err != nil {
		return nil, err
	}
	converted := make(starlark.Tuple, len(args))
	for i, a := range args {
		if converted[i], err = toText(b.Name(), a); err != nil {
			return nil, err
		}
	}
	pairs := make([]starlark.Tuple, len(kwargs))
	for i, kv := range kwargs {
		v, err := toText(b.Name(), kv[1])
		if err != nil {
			return nil, err
		}
		pairs[i] = starlark.Tuple{kv[0], v}
	}
	v, err := method.(*starlark.Builtin).CallInternal(thread, converted, pairs)
	if err != nil {
		return nil, err
	}
	return toBytes(v), nil
}

func bytesText(s starlark.Bytes) string {
	var out strings.Builder
	for i := range len(s) {
		r := rune(s[i])
		if r >= utf8.RuneSelf {
			r += highByte
		}
		out.WriteRune(r)
	}
	return out.String()
}

// toText converts the bytes of an argument, also in a tuple or list.
func toText(method string, v starlark.Value) (starlark.Value, error) {
	switch v := v.(type) {
	case starlark.Bytes:
		return starlark.String(bytesText(v)), nil
	case starlark.String:
		return nil, stdlib.Errorf(stdlib.TypeError, "%s: a bytes-like object is required, not 'str'", method)
	case starlark.Int, starlark.Bool, starlark.NoneType:
		return v, nil
	case starlark.Iterable:
		var out starlark.Tuple
		err := each(v, func(x starlark.Value) error {
			text, err := toText(method, x)
			out = append(out, text)
			return err
		})
		return out, err
	}
	return v, nil
}

// toBytes converts the text of a result, also in a tuple or list.
func toBytes(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case starlark.String:
		out := make([]byte, 0, len(v))
		for _, r := range string(v) {
			out = append(out, byte(r)) // also without highByte, a multiple of 256
		}
		return starlark.Bytes(out)
	case starlark.Tuple:
		for i := range v {
			v[i] = toBytes(v[i])
		}
	case *starlark.List:
		for i := range v.Len() {
			_ = v.SetIndex(i, toBytes(v.Index(i)))
		}
	}
	return v
}

// encodingOf returns the last character of an encoding; -1 for UTF-8.
func encodingOf(name string) (last rune, err error) {
	switch strings.ReplaceAll(strings.ToLower(name), "_", "-") {
	case "utf-8", "utf8":
		return -1, nil
	case "ascii", "us-ascii":
		return 0x7F, nil
	case "latin-1", "latin1", "iso-8859-1", "iso8859-1":
		return 0xFF, nil
	}
	return 0, stdlib.Errorf(stdlib.LookupError, "unknown encoding: %s (there are utf-8, ascii and latin-1)", name)
}

func strEncode(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	encoding, handling := "utf-8", "strict"
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "encoding?", &encoding, "errors?", &handling); err != nil {
		return nil, err
	}
	last, err := encodingOf(encoding)
	if err != nil {
		return nil, err
	}
	s := receiverText(b)
	if last < 0 {
		return starlark.Bytes(s), nil
	}
	out := make([]byte, 0, len(s))
	for i, r := range s {
		switch {
		case r <= last:
			out = append(out, byte(r))
		case handling == "ignore":
		case handling == "replace":
			out = append(out, '?')
		default:
			return nil, stdlib.Errorf("UnicodeEncodeError", "'%s' codec can't encode character %+q at byte %d", encoding, r, i)
		}
	}
	return starlark.Bytes(out), nil
}

func bytesDecode(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	encoding, handling := "utf-8", "strict"
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "encoding?", &encoding, "errors?", &handling); err != nil {
		return nil, err
	}
	last, err := encodingOf(encoding)
	if err != nil {
		return nil, err
	}
	s := string(b.Receiver().(starlark.Bytes))
	if last == 0xFF {
		var out strings.Builder
		for i := range len(s) {
			out.WriteRune(rune(s[i]))
		}
		return starlark.String(out.String()), nil
	}
	valid := utf8.ValidString(s) && (last < 0 || strings.IndexFunc(s, func(r rune) bool { return r > last }) < 0)
	switch {
	case valid:
		return starlark.String(s), nil
	case handling == "ignore":
		return starlark.String(strings.ToValidUTF8(s, "")), nil
	case handling == "replace":
		return starlark.String(strings.ToValidUTF8(s, "\uFFFD")), nil
	}
	return nil, stdlib.Errorf("UnicodeDecodeError", "the bytes are not valid %s (errors=\"replace\" puts \uFFFD in their place)", encoding)
}

func bytesHex(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return starlark.String(hex.EncodeToString([]byte(b.Receiver().(starlark.Bytes)))), nil
}
