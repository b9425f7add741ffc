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

// ResultType returns the type of a result. A result without one is complete, as of
// revisions that have no types. ok is false if the type is not a string.
func ResultType(result []byte) (kind string, ok bool) {
	raw, found := wire.Get(result, "resultType")
	if !found {
		return TypeComplete, true
	}
	return wire.Text(raw)
}

// Stamp adds to complete results what the stateless era has in every one.
type Stamp struct {
	serverInfo []byte // raw object; nil for none
	meta       []byte // with serverInfo; nil for none
	usual      []byte // what is added to most results
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

// Complete returns a result with its type, and serverInfo in its _meta. hints is nil for
// results without cache hints. What the result has already stays as it is. It fails if the
// result or its _meta are not objects.
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

// missing returns the members to add to a result, given the values of those in completed.
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

// completed are the members that a Stamp adds.
var completed = []string{"resultType", "ttlMs", "cacheScope", "_meta"}

var errNotObject = errors.New("a result must be an object")

// onlyStateless are the members of a complete result that the handshake era does not have.
var onlyStateless = []string{"resultType", "ttlMs", "cacheScope"}

// Legacy returns a complete result without what the stateless era adds to it. A _meta
// that becomes empty is removed. It fails if the result is not an object.
func Legacy(result []byte) (legacy []byte, err error) { return without(result, onlyStateless) }

// reserved are all members of results that only the stateless era defines.
var reserved = slices.Concat(onlyStateless, []string{"inputRequests", "requestState"})

// FromHandshake returns a result of a server of the handshake era without members that
// only the stateless era defines. Such a server means something else with them, but a
// client of the stateless era would take them for a question, or for a promise about how
// long it may keep the result. The rest keeps its bytes. It fails if the result is not an
// object.
func FromHandshake(result []byte) ([]byte, error) { return without(result, reserved) }

// without removes members from a result, and serverInfo from its _meta. Most results have
// none of them, and are read only once.
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
