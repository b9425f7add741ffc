package envelope

import (
	"errors"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Values of the member resultType of a result (revision 2026-07-28, basic/index,
// "ResultType"). TypeTask is of the extension [protocol.ExtensionTasks].
const (
	TypeComplete      = "complete"
	TypeInputRequired = "input_required"
	TypeTask          = "task"
)

// ResultType returns the type of a result. A result without a type is complete, as in revisions
// without types. ok is false if the type is not a string.
func ResultType(result []byte) (kind string, ok bool) {
	raw, found := wire.Get(result, "resultType")
	if !found {
		return TypeComplete, true
	}
	return wire.Text(raw)
}

// Stamp adds to complete results the members required in the stateless era.
type Stamp struct {
	serverInfo []byte // raw object; nil for none
	meta       []byte // with serverInfo; nil for none
	usual      []byte // the addition to most results
}

// NewStamp makes a Stamp with the name and version of the server, a raw object; nil for
// none.
func NewStamp(serverInfo []byte) Stamp {
	s := Stamp{serverInfo: serverInfo}
	if serverInfo != nil {
		var meta wire.Object
		meta.Raw(KeyServerInfo, serverInfo)
		s.meta = meta.Bytes()
	}
	s.usual = s.missing([4][]byte{}, nil)
	return s
}

// Complete returns a result with the type, and with serverInfo in _meta. hints is nil for results
// without cache hints. Members of the result stay unchanged. Complete fails if the result or _meta
// are not objects.
func (s *Stamp) Complete(result []byte, hints *Hints) ([]byte, error) {
	var found [4][]byte
	if !wire.Pick(result, completed, found[:]) {
		return nil, errNotObject
	}
	meta := found[3]
	if found[0] == nil && meta == nil && hints == nil {
		return wire.Extend(result, s.usual), nil
	}
	result = wire.Extend(result, s.missing(found, hints))
	if _, ok := wire.Get(meta, KeyServerInfo); ok || meta == nil || s.meta == nil {
		return result, nil
	}
	return wire.Set(result, s.serverInfo, "_meta", KeyServerInfo)
}

// missing returns the members to add to a result, given the values of the members in completed.
func (s *Stamp) missing(found [4][]byte, hints *Hints) []byte {
	more := wire.NewObject(96 + len(s.meta))
	if found[0] == nil {
		more.Text("resultType", TypeComplete)
	}
	if hints != nil && found[1] == nil {
		more.Int("ttlMs", max(hints.TTL, 0))
	}
	if hints != nil && found[2] == nil {
		more.Text("cacheScope", hints.Scope)
	}
	if found[3] == nil {
		more.Raw("_meta", s.meta)
	}
	return more.Bytes()
}

// completed are the members added by a Stamp.
var completed = []string{"resultType", "ttlMs", "cacheScope", "_meta"}

var errNotObject = errors.New("a result must be an object")

// onlyStateless are the members of a complete result unknown to the handshake era.
var onlyStateless = []string{"resultType", "ttlMs", "cacheScope"}

// Legacy returns a complete result without the additions of the stateless era. A _meta that becomes
// empty is removed. Legacy fails if the result is not an object.
func Legacy(result []byte) (legacy []byte, err error) { return without(result, onlyStateless) }

// reserved are all members of results defined only in the stateless era.
var reserved = slices.Concat(onlyStateless, []string{"inputRequests", "requestState"})

// FromHandshake returns a result of a server of the handshake era without members that only the
// stateless era defines. The server gives them a different meaning, but a client of the stateless
// era would take them for a question, or for a promise about the lifetime of the result. The rest
// stays unchanged. FromHandshake fails if the result is not an object.
func FromHandshake(result []byte) ([]byte, error) { return without(result, reserved) }

// without removes members from a result, and serverInfo from _meta. Most results have none of these
// members, and are read only once.
func without(result []byte, names []string) ([]byte, error) {
	found := make([][]byte, 1, 8)
	found = found[:1+len(names)]
	if !wire.Pick(result, append([]string{"_meta"}, names...), found) {
		return nil, errNotObject
	}
	meta := found[0]
	if slices.ContainsFunc(found[1:], func(value []byte) bool { return value != nil }) {
		var err error
		if result, err = wire.Without(result, names...); err != nil {
			return nil, err
		}
	}
	if _, ok := wire.Get(meta, KeyServerInfo); !ok {
		return result, nil
	}
	rest, err := wire.Delete(meta, KeyServerInfo)
	switch {
	case err != nil:
		return nil, err
	case isEmpty(rest):
		return wire.Delete(result, "_meta")
	}
	return wire.Set(result, rest, "_meta")
}
