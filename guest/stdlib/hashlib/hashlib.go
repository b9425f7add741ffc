// Package hashlib is Python's modules hashlib, hmac and zlib (check sums only). Begin with
// [Module].
package hashlib

import (
	"encoding/hex"
	"hash/adler32"
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/base64"
	"go.starlark.net/starlark"
)

// Module returns the module hashlib.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{"new": func(c *stdlib.Call) (starlark.Value, error) {
		var name string
		var data starlark.Value = starlark.Bytes("")
		secure := true
		if err := c.Unpack("name", &name, "data?", &data, "*", nil, "usedforsecurity?", &secure); err != nil {
			return nil, err
		}
		return start(c, name, data)
	}})
	for name := range sizes {
		members[name] = stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			var data starlark.Value = starlark.Bytes("")
			secure := true
			if err := c.Unpack("string?", &data, "*", nil, "usedforsecurity?", &secure); err != nil {
				return nil, err
			}
			return start(c, name, data)
		})
	}
	set := starlark.NewSet(len(sizes))
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		_ = set.Insert(starlark.String(name)) // text can be in a set
	}
	set.Freeze()
	members["algorithms_available"], members["algorithms_guaranteed"] = set, set
	return &stdlib.Module{Name: "hashlib", Members: members}
}

// HMAC returns the module hmac.
func HMAC() *stdlib.Module {
	return &stdlib.Module{Name: "hmac", Members: stdlib.Funcs(map[string]stdlib.Func{
		"new": func(c *stdlib.Call) (starlark.Value, error) {
			var key, algorithm starlark.Value
			var msg starlark.Value
			if err := c.Unpack("key", &key, "msg??", &msg, "digestmod?", &algorithm); err != nil {
				return nil, err
			}
			return keyed(c, key, msg, algorithm)
		},
		"digest": func(c *stdlib.Call) (starlark.Value, error) {
			var key, msg, algorithm starlark.Value
			if err := c.Unpack("key", &key, "msg", &msg, "digest", &algorithm); err != nil {
				return nil, err
			}
			d, err := keyed(c, key, msg, algorithm)
			if err != nil {
				return nil, err
			}
			return starlark.Bytes(d.sum()), nil
		},
		"compare_digest": func(c *stdlib.Call) (starlark.Value, error) {
			var a, b starlark.Value
			if err := c.Unpack("a", &a, "b", &b, "/", nil); err != nil {
				return nil, err
			}
			if a.Type() != b.Type() {
				return nil, stdlib.Errorf(stdlib.TypeError, "unsupported operand types(s) or combination of types: '%s' and '%s'", stdlib.TypeName(a), stdlib.TypeName(b))
			}
			x, err := c.ASCIIOf(a)
			if err != nil {
				return nil, stdlib.Errorf(stdlib.TypeError, "comparing strings with non-ASCII characters is not supported")
			}
			y, err := c.ASCIIOf(b)
			if err != nil {
				return nil, stdlib.Errorf(stdlib.TypeError, "comparing strings with non-ASCII characters is not supported")
			}
			return starlark.Bool(x == y), nil
		},
	})}
}

// Zlib returns the module zlib.
func Zlib() *stdlib.Module {
	return &stdlib.Module{Name: "zlib", Members: stdlib.Funcs(map[string]stdlib.Func{
		"crc32": base64.CRC32,
		"adler32": func(c *stdlib.Call) (starlark.Value, error) {
			var v starlark.Value
			if err := c.Unpack("data", &v, "/", nil); err != nil {
				return nil, err
			}
			s, err := c.BytesOf(v)
			return starlark.MakeInt64(int64(adler32.Checksum([]byte(s)))), err
		},
	})}
}

// digest is a hash, or with an outer hash an HMAC.
type digest struct {
	name  string
	inner Sum
	outer string // the padded key of the outer hash
}

var _ starlark.HasAttrs = (*digest)(nil)

func start(c *stdlib.Call, name string, data starlark.Value) (*digest, error) {
	inner, ok := New(name)
	if !ok {
		return nil, stdlib.Errorf(stdlib.ValueError, "unsupported hash type %s", name)
	}
	d := &digest{name: name, inner: inner}
	return d, d.update(c, data)
}

// keyed starts an HMAC.
func keyed(c *stdlib.Call, key, msg, algorithm starlark.Value) (*digest, error) {
	secret, err := c.BytesOf(key)
	if err != nil {
		return nil, err
	}
	var name string
	switch a := algorithm.(type) {
	case starlark.String:
		name = string(a)
	case *starlark.Builtin: // hashlib.sha256
		name = a.Name()
	case nil:
		return nil, stdlib.Errorf(stdlib.TypeError, "Missing required argument 'digestmod'.")
	}
	d, err := start(c, name, starlark.Bytes(""))
	if err != nil {
		return nil, err
	}
	pad := make([]byte, d.inner.Block())
	if len(secret) > len(pad) {
		secret = string(Of(name, secret))
	}
	copy(pad, secret)
	outer := make([]byte, len(pad))
	for i, b := range pad {
		pad[i], outer[i] = b^0x36, b^0x5c
	}
	d.outer = string(outer)
	d.inner.Write(string(pad))
	d.name = "hmac-" + name
	if msg == nil {
		return d, nil
	}
	return d, d.update(c, msg)
}

func (d *digest) update(c *stdlib.Call, v starlark.Value) error {
	if _, text := v.(starlark.String); text {
		return stdlib.Errorf(stdlib.TypeError, "Strings must be encoded before hashing: text.encode()")
	}
	s, err := c.BytesOf(v)
	if err == nil {
		d.inner.Write(s)
	}
	return err
}

func (d *digest) sum() []byte {
	sum := d.inner.Digest()
	if d.outer == "" {
		return sum
	}
	return Of(d.inner.name, d.outer+string(sum))
}

func (d *digest) String() string        { return "<" + d.name + " object>" }
func (*digest) Type() string            { return "HASH" }
func (*digest) Freeze()                 {}
func (*digest) Truth() starlark.Bool    { return true }
func (d *digest) Hash() (uint32, error) { return starlark.String(d.name).Hash() }
func (*digest) AttrNames() []string {
	return []string{"block_size", "copy", "digest", "digest_size", "hexdigest", "name", "update"}
}

func (d *digest) Attr(name string) (starlark.Value, error) {
	switch name {
	case "name":
		return starlark.String(d.name), nil
	case "digest_size":
		return starlark.MakeInt(d.inner.Size()), nil
	case "block_size":
		return starlark.MakeInt(d.inner.Block()), nil
	}
	if m := stdlib.Method(d, name, digestMethods); m != nil {
		return m, nil
	}
	return nil, nil
}

var digestMethods = map[string]stdlib.Func{
	"update": func(c *stdlib.Call) (starlark.Value, error) {
		var data starlark.Value
		if err := c.Unpack("data", &data, "/", nil); err != nil {
			return nil, err
		}
		return starlark.None, c.Receiver.(*digest).update(c, data)
	},
	"digest": func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.Bytes(c.Receiver.(*digest).sum()), c.Unpack()
	},
	"hexdigest": func(c *stdlib.Call) (starlark.Value, error) {
		return starlark.String(hex.EncodeToString(c.Receiver.(*digest).sum())), c.Unpack()
	},
	"copy": func(c *stdlib.Call) (starlark.Value, error) {
		if err := c.Unpack(); err != nil {
			return nil, err
		}
		again := *c.Receiver.(*digest)
		return &again, nil
	},
}
