package envelope

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
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

// Scopes of a cache hint (revision 2026-07-28, server/utilities/caching).
const (
	ScopePrivate = "private" // the result is for this client's credentials only
	ScopePublic  = "public"  // the result is the same for everybody
)

// Hints say how long a client may keep a result.
type Hints struct {
	TTL   int64  // milliseconds, 0 or more
	Scope string // ScopePrivate or ScopePublic
}

// maxTTL is the longest time that a result may be kept according to the proxy, in milliseconds: a
// day.
const maxTTL = 24 * 60 * 60 * 1000

// ReadHints returns the hints of a result. Missing or malformed hints promise nothing.
func ReadHints(result []byte) Hints {
	h := Hints{Scope: ScopePrivate}
	raw, _ := wire.Get(result, "ttlMs")
	if ttl, err := strconv.ParseFloat(string(raw), 64); err == nil {
		h.TTL = int64(min(max(ttl, 0), maxTTL))
	}
	if scope, _ := wire.GetString(result, "cacheScope"); scope == ScopePublic {
		h.Scope = ScopePublic
	}
	return h
}

// And returns the hints of a result made of two results.
func (h Hints) And(other Hints) Hints {
	if other.Scope != ScopePublic {
		h.Scope = ScopePrivate
	}
	h.TTL = min(h.TTL, other.TTL)
	return h
}

// Freshness says how long a list of a server is current. The zero value promises nothing.
type Freshness struct {
	// Hints are the hints of the server; nil in the handshake era, which has no hints.
	Hints *Hints
	// Read is when the list was read.
	Read time.Time
	// Live is set if the server announces changes of the list, so the list is always current.
	Live bool
	// Nothing is set if the server has no list of this kind.
	Nothing bool
}

// Expired reports whether a server of the stateless era has to be asked again for a current list.
func (f Freshness) Expired(now time.Time) bool {
	return f.Hints != nil && !f.Live && f.rest(now) == 0
}

// rest returns how much is left of the time for which the list may be kept, in
// milliseconds. f.Hints is not nil.
func (f Freshness) rest(now time.Time) int64 {
	if f.Live {
		return f.Hints.TTL
	}
	return max(f.Hints.TTL-max(now.Sub(f.Read), 0).Milliseconds(), 0)
}

// Combine returns the hints of a list composed of lists of several servers. Servers of the
// handshake era give no hints: their list counts as private, and may be kept only if the server
// announces changes.
func Combine(now time.Time, all []Freshness) Hints {
	combined := Hints{TTL: maxTTL, Scope: ScopePublic}
	hinted := false
	for _, f := range all {
		switch {
		case f.Nothing:
		case f.Hints != nil:
			hinted = true
			combined = combined.And(Hints{f.rest(now), f.Hints.Scope})
		case f.Live:
			combined.Scope = ScopePrivate
		default:
			return Hints{0, ScopePrivate}
		}
	}
	if !hinted {
		return Hints{0, ScopePrivate}
	}
	return combined
}

// Question returns the form in inputRequests of a request of a server of the handshake era to a
// client: without the members that a separate answer needs (progressToken, elicitationId). It fails
// if the params are not an object.
func Question(method string, params []byte) ([]byte, error) {
	if params != nil {
		var err error
		if params, err = questionParams(method, params); err != nil {
			return nil, err
		}
	}
	request := wire.NewObject(len(method) + len(params) + 32)
	request.Text("method", method)
	request.Raw("params", params)
	return request.Bytes(), nil
}

func questionParams(method string, params []byte) ([]byte, error) {
	params, err := wire.Delete(params, "_meta", "progressToken")
	if err == nil && method == protocol.MethodElicit {
		params, err = wire.Delete(params, "elicitationId")
	}
	if meta, ok := wire.Get(params, "_meta"); ok && err == nil && string(meta) == "{}" {
		params, err = wire.Delete(params, "_meta")
	}
	return params, err
}

// answerMember is the mandatory member of answers to the questions of a method, and the kind of the
// member's value.
var answerMember = map[string]struct {
	name string
	kind byte
}{
	protocol.MethodElicit:        {"action", '"'},
	protocol.MethodCreateMessage: {"role", '"'},
	protocol.MethodRootsList:     {"roots", '['},
}

// CheckAnswer returns the fault of an answer, or "".
func CheckAnswer(method string, answer []byte) string {
	if !wire.IsObject(answer) {
		return "must be an object"
	}
	want, ok := answerMember[method]
	if !ok {
		return ""
	}
	if value, _ := wire.Get(answer, want.name); len(value) == 0 || value[0] != want.kind {
		return "is not an answer to " + method + ": " + want.name + " is missing or malformed"
	}
	return ""
}
