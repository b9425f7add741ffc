// Package uuid is Python's module uuid, without versions 1 and 2. uuid4 comes from the
// seed of the run.
package uuid

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/hashlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Module returns the module uuid.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{"uuid4": uuid4, "uuid3": named, "uuid5": named})
	members["UUID"] = &stdlib.Class{
		Named: "uuid.UUID",
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			return newUUID(&stdlib.Call{Thread: thread, Name: "UUID", Args: args, Kwargs: kwargs})
		},
		Is: func(v starlark.Value) bool { _, ok := v.(UUID); return ok },
	}
	for i, name := range []string{"DNS", "URL", "OID", "", "X500"} {
		if name != "" {
			members["NAMESPACE_"+name] = UUID{0x6b, 0xa7, 0xb8, 0x10 + byte(i), 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}
		}
	}
	return &stdlib.Module{Name: "uuid", Members: members}
}

// UUID is a UUID.
type UUID [16]byte

var (
	_ starlark.HasAttrs   = UUID{}
	_ starlark.Comparable = UUID{}
	_ stdlib.Texter       = UUID{}
)

// Str is the usual form with hyphens.
func (u UUID) Str() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

func (u UUID) String() string        { return "UUID('" + u.Str() + "')" }
func (UUID) Type() string            { return "UUID" }
func (UUID) Freeze()                 {}
func (UUID) Truth() starlark.Bool    { return true }
func (u UUID) Hash() (uint32, error) { return starlark.String(u[:]).Hash() }
func (UUID) AttrNames() []string     { return []string{"bytes", "hex", "int", "urn", "variant", "version"} }

// CompareSameType compares the bytes.
func (u UUID) CompareSameType(op syntax.Token, y starlark.Value, depth int) (bool, error) {
	v := y.(UUID)
	return starlark.CompareDepth(op, starlark.String(u[:]), starlark.String(v[:]), depth)
}

func (u UUID) Attr(name string) (starlark.Value, error) {
	switch name {
	case "hex":
		return starlark.String(hex.EncodeToString(u[:])), nil
	case "bytes":
		return starlark.Bytes(u[:]), nil
	case "int":
		return starlark.MakeBigInt(new(big.Int).SetBytes(u[:])), nil
	case "urn":
		return starlark.String("urn:uuid:" + u.Str()), nil
	case "version":
		if u[8]&0xc0 != 0x80 {
			return starlark.None, nil
		}
		return starlark.MakeInt(int(u[6] >> 4)), nil
	case "variant":
		switch {
		case u[8]&0x80 == 0:
			return starlark.String("reserved for NCS compatibility"), nil
		case u[8]&0x40 == 0:
			return starlark.String("specified in RFC 4122"), nil
		case u[8]&0x20 == 0:
			return starlark.String("reserved for Microsoft compatibility"), nil
		}
		return starlark.String("reserved for future definition"), nil
	}
	return nil, nil
}

func (u UUID) marked(version byte) UUID {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	return u
}

type stateKey struct{}

func uuid4(c *stdlib.Call) (starlark.Value, error) {
	if err := c.Unpack(); err != nil {
		return nil, err
	}
	state := c.Env().State
	g, ok := state[stateKey{}].(*rand.Rand)
	if !ok {
		seed, err := c.Env().Seed()
		if err != nil {
			return nil, err
		}
		g = rand.New(rand.NewPCG(seed, 2)) // other numbers than those of random
		state[stateKey{}] = g
	}
	var u UUID
	for i := range u {
		u[i] = byte(g.Uint64() >> 56)
	}
	return u.marked(4), nil
}

// named is uuid3 or uuid5.
func named(c *stdlib.Call) (starlark.Value, error) {
	var namespace, v starlark.Value
	if err := c.Unpack("namespace", &namespace, "name", &v); err != nil {
		return nil, err
	}
	space, ok := namespace.(UUID)
	if !ok {
		return nil, stdlib.Errorf(stdlib.AttributeError, "'%s' object has no attribute 'bytes'", stdlib.TypeName(namespace))
	}
	name, ok := starlark.AsString(v)
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "name must be str, not %s", stdlib.TypeName(v))
	}
	data := string(space[:]) + name
	if c.Name == "uuid3" {
		return UUID(hashlib.Of("md5", data)).marked(3), nil
	}
	return UUID(hashlib.Of("sha1", data)[:16]).marked(5), nil
}

func newUUID(c *stdlib.Call) (starlark.Value, error) {
	var text, raw, number starlark.Value
	if err := c.Unpack("hex??", &text, "bytes??", &raw, "*", nil, "int??", &number); err != nil {
		return nil, err
	}
	var u UUID
	switch {
	case text != nil && raw == nil && number == nil:
		s, ok := starlark.AsString(text)
		if !ok {
			return nil, stdlib.Errorf(stdlib.AttributeError, "'%s' object has no attribute 'replace'", stdlib.TypeName(text))
		}
		s = strings.ReplaceAll(strings.ReplaceAll(s, "urn:", ""), "uuid:", "")
		s = strings.ReplaceAll(strings.Trim(s, "{}"), "-", "")
		b, err := hex.DecodeString(s)
		if err != nil || len(b) != 16 {
			return nil, stdlib.Errorf(stdlib.ValueError, "badly formed hexadecimal UUID string")
		}
		copy(u[:], b)
	case raw != nil && text == nil && number == nil:
		b, err := c.BytesOf(raw)
		if err != nil {
			return nil, err
		}
		if len(b) != 16 {
			return nil, stdlib.Errorf(stdlib.ValueError, "bytes is not a 16-char string")
		}
		copy(u[:], b)
	case number != nil && text == nil && raw == nil:
		n, ok := stdlib.Integer(number)
		if !ok || n.Sign() < 0 || n.BigInt().BitLen() > 128 {
			return nil, stdlib.Errorf(stdlib.ValueError, "int is out of range (need a 128-bit value)")
		}
		n.BigInt().FillBytes(u[:])
	default:
		return nil, stdlib.Errorf(stdlib.TypeError, "one of the hex, bytes, or int arguments must be given")
	}
	return u, nil
}
