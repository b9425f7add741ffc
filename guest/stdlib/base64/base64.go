// Package base64 is Python's modules base64 and binascii, without Base85.
package base64

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Module returns the module base64.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "base64", Members: stdlib.Funcs(map[string]stdlib.Func{
		"b64encode": encode64, "standard_b64encode": encode64, "urlsafe_b64encode": encode64, "encodebytes": encodeLines,
		"b64decode": decode64, "standard_b64decode": decode64, "urlsafe_b64decode": decode64, "decodebytes": decode64,
		"b32encode": encode32, "b32decode": decode32, "b16encode": encode16, "b16decode": decode16,
	})}
}

// Binascii returns the module binascii.
func Binascii() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"hexlify": toHex, "b2a_hex": toHex, "unhexlify": fromHex, "a2b_hex": fromHex, "crc32": CRC32, "b2a_base64": encodeLine, "a2b_base64": decode64,
	})
	members["Error"] = stdlib.ErrorClass(errorClass, stdlib.ValueError)
	return &stdlib.Module{Name: "binascii", Members: members}
}

const errorClass = "binascii.Error"

func fail(message string) error {
	return &stdlib.Error{Class: errorClass, Bases: []string{stdlib.ValueError}, Message: message}
}

func encode64(c *stdlib.Call) (starlark.Value, error) {
	var v, altchars starlark.Value
	if err := c.Unpack("s", &v, "altchars??", &altchars); err != nil {
		return nil, err
	}
	s, err := c.BytesOf(v)
	if err != nil {
		return nil, err
	}
	out := base64.StdEncoding.EncodeToString([]byte(s))
	if c.Name == "urlsafe_b64encode" {
		out = strings.NewReplacer("+", "-", "/", "_").Replace(out)
	}
	if altchars != nil {
		alt, err := c.BytesOf(altchars)
		if err != nil {
			return nil, err
		}
		if len(alt) != 2 {
			return nil, stdlib.Errorf(stdlib.ValueError, "altchars must be two bytes")
		}
		out = strings.NewReplacer("+", alt[:1], "/", alt[1:]).Replace(out)
	}
	return starlark.Bytes(out), nil
}

func decode64(c *stdlib.Call) (starlark.Value, error) {
	var v, altchars starlark.Value
	validate := false
	if err := c.Unpack("s", &v, "altchars??", &altchars, "validate?", &validate); err != nil {
		return nil, err
	}
	s, err := c.ASCIIOf(v)
	if err != nil {
		return nil, err
	}
	if c.Name == "urlsafe_b64decode" {
		s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
	}
	if altchars != nil {
		alt, err := c.ASCIIOf(altchars)
		if err != nil {
			return nil, err
		}
		if len(alt) != 2 {
			return nil, stdlib.Errorf(stdlib.ValueError, "altchars must be two bytes")
		}
		s = strings.NewReplacer(alt[:1], "+", alt[1:], "/").Replace(s)
	}
	out, err := decode(s, validate)
	return starlark.Bytes(out), err
}

// decode skips characters outside the alphabet, as Python does, unless strict is set.
func decode(s string, strict bool) (string, error) {
	out := make([]byte, 0, len(s)/4*3+3)
	quad, pads, count := 0, 0, 0
	var left byte
	for i := range len(s) {
		ch := s[i]
		if ch == '=' {
			pads++
			if quad >= 2 && quad+pads >= 4 {
				if strict && i+1 < len(s) {
					return "", fail("Excess data after padding")
				}
				return string(out), nil
			}
			if strict && i == 0 {
				return "", fail("Leading padding not allowed")
			}
			continue
		}
		n := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", ch)
		if n < 0 {
			if strict {
				return "", fail("Only base64 data is allowed")
			}
			continue
		}
		if strict && pads > 0 {
			return "", fail("Discontinuous padding not allowed")
		}
		pads = 0
		count++
		b := byte(n)
		switch quad {
		case 1:
			out = append(out, left<<2|b>>4)
		case 2:
			out = append(out, left<<4|b>>2)
		case 3:
			out = append(out, left<<6|b)
		}
		left = b
		quad = (quad + 1) % 4
	}
	if quad == 1 {
		return "", fail("Invalid base64-encoded string: number of data characters cannot be 1 more than a multiple of 4")
	}
	if quad != 0 {
		return "", fail("Incorrect padding")
	}
	return string(out), nil
}

func onlyBytes(c *stdlib.Call) (string, error) {
	var v starlark.Value
	if err := c.Unpack("s", &v); err != nil {
		return "", err
	}
	return c.BytesOf(v)
}

// encodeLines writes lines of 76 characters.
func encodeLines(c *stdlib.Call) (starlark.Value, error) {
	s, err := onlyBytes(c)
	if err != nil {
		return nil, err
	}
	const size = 57
	var b strings.Builder
	for ; s != ""; s = s[min(size, len(s)):] {
		b.WriteString(base64.StdEncoding.EncodeToString([]byte(s[:min(size, len(s))])) + "\n")
	}
	return starlark.Bytes(b.String()), nil
}

func encodeLine(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	newline := true
	if err := c.Unpack("data", &v, "/", nil, "*", nil, "newline?", &newline); err != nil {
		return nil, err
	}
	s, err := c.BytesOf(v)
	if err != nil {
		return nil, err
	}
	out := base64.StdEncoding.EncodeToString([]byte(s))
	if newline {
		out += "\n"
	}
	return starlark.Bytes(out), nil
}

func encode32(c *stdlib.Call) (starlark.Value, error) {
	s, err := onlyBytes(c)
	return starlark.Bytes(base32.StdEncoding.EncodeToString([]byte(s))), err
}

func foldedText(c *stdlib.Call) (string, error) {
	var v starlark.Value
	fold := false
	if err := c.Unpack("s", &v, "casefold?", &fold); err != nil {
		return "", err
	}
	s, err := c.ASCIIOf(v)
	if fold {
		s = strings.ToUpper(s)
	}
	return s, err
}

func decode32(c *stdlib.Call) (starlark.Value, error) {
	s, err := foldedText(c)
	if err != nil {
		return nil, err
	}
	if len(s)%8 != 0 {
		return nil, fail("Incorrect padding")
	}
	if strings.ContainsAny(s, "\r\n") {
		return nil, fail("Non-base32 digit found")
	}
	out, err := base32.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, fail("Non-base32 digit found, or incorrect padding")
	}
	return starlark.Bytes(out), nil
}

func encode16(c *stdlib.Call) (starlark.Value, error) {
	s, err := onlyBytes(c)
	return starlark.Bytes(strings.ToUpper(hex.EncodeToString([]byte(s)))), err
}

func decode16(c *stdlib.Call) (starlark.Value, error) {
	s, err := foldedText(c)
	if err != nil {
		return nil, err
	}
	out, err := hex.DecodeString(s)
	if err != nil || s != strings.ToUpper(s) {
		return nil, fail("Non-base16 digit found")
	}
	return starlark.Bytes(out), nil
}

func toHex(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("data", &v); err != nil {
		return nil, err
	}
	s, err := c.BytesOf(v)
	return starlark.Bytes(hex.EncodeToString([]byte(s))), err
}

func fromHex(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("hexstr", &v, "/", nil); err != nil {
		return nil, err
	}
	s, err := c.ASCIIOf(v)
	if err != nil {
		return nil, err
	}
	if len(s)%2 != 0 {
		return nil, fail("Odd-length string")
	}
	out, err := hex.DecodeString(s)
	if err != nil {
		return nil, fail("Non-hexadecimal digit found")
	}
	return starlark.Bytes(out), nil
}

// CRC32 is also zlib.crc32.
func CRC32(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	var before starlark.Int
	if err := c.Unpack("data", &v, "value?", &before, "/", nil); err != nil {
		return nil, err
	}
	s, err := c.BytesOf(v)
	if err != nil {
		return nil, err
	}
	start, _ := before.And(starlark.MakeInt64(0xffffffff)).Int64()
	return starlark.MakeInt64(int64(crc32.Update(uint32(start), crc32.IEEETable, []byte(s)))), nil
}
