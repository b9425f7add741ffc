// Package protocol is the table of the supported MCP revisions: the methods, the features and the
// error codes of each. No other package compares revisions or contains their names (a test enforces
// this). Begin with Revision and Era: revision.Has(protocol.Batches), or
// protocol.Handshake.Negotiate("2025-06-18").
//
// To support another revision, add a row to the table, with the additions and removals
// of the revision and the pages of the specification. The table is not a filter: unknown methods
// are forwarded unchanged. Nothing changes after initialization, so everything is safe for
// concurrent use.
package protocol

import (
	"slices"
)

// Era is a generation of the protocol. The era determines how a client and a server agree on a
// revision.
type Era uint8

const (
	// Handshake is the era of sessions: initialize determines the revision of all later messages
	// (revisions up to 2025-11-25, basic/lifecycle).
	Handshake Era = iota + 1
	// Stateless is the era without sessions: each request names a revision (revision 2026-07-28,
	// basic/versioning).
	Stateless
)

// Revision is a supported protocol revision. Revisions can be compared with == but not ordered; use
// [Revision.Has] instead. The zero value means no revision, as in a session before initialize.
type Revision struct {
	number uint8 // 1 + index in revisions
}

// String returns the name of the revision, for example "2025-11-25"; "" for the zero Revision.
func (r Revision) String() string { return r.row().name }

// IsZero reports whether r is the zero Revision.
func (r Revision) IsZero() bool { return r.number == 0 }

// Era returns the era of the revision; 0 for the zero Revision.
func (r Revision) Era() Era { return r.row().era }

// Has reports whether the revision has a feature. The zero Revision has none.
func (r Revision) Has(f Feature) bool { return r.row().has&(1<<f) != 0 }

// Methods returns the requests and notifications of the revision, in the order of the table. The
// caller must not change the slice.
func (r Revision) Methods() []Method { return r.row().allMethods }

// Method returns a request or notification of the revision, given the sender and the name.
func (r Revision) Method(from Party, name string) (Method, bool) {
	return find(r.row().allMethods, from, name)
}

// Codes returns the error codes of the revision, in addition to the codes of JSON-RPC 2.0. The
// caller must not change the slice.
func (r Revision) Codes() []int { return r.row().allCodes }

func (r Revision) row() *row {
	if r.number == 0 {
		return &none
	}
	return &revisions[r.number-1]
}

// Lookup returns the revision with the given name, of any era.
func Lookup(name string) (Revision, bool) {
	for i := range revisions {
		if revisions[i].name == name {
			return Revision{uint8(i + 1)}, true
		}
	}
	return Revision{}, false
}

// FindMethod returns a request or notification, given the sender and the name, of the newest
// revision with this method.
func FindMethod(from Party, name string) (Method, bool) {
	for i := len(revisions) - 1; i >= 0; i-- {
		if m, ok := find(revisions[i].allMethods, from, name); ok {
			return m, true
		}
	}
	return Method{}, false
}

// Revisions returns the supported revisions of the era, newest first.
func (e Era) Revisions() []Revision {
	var all []Revision
	for i := len(revisions) - 1; i >= 0; i-- {
		if revisions[i].era == e {
			all = append(all, Revision{uint8(i + 1)})
		}
	}
	return all
}

// Names returns the names of the era's revisions, newest first.
func (e Era) Names() []string {
	var names []string
	for _, r := range e.Revisions() {
		names = append(names, r.String())
	}
	return names
}

// Newest returns the newest revision of the era; the zero Revision if we support none.
func (e Era) Newest() Revision {
	for i, r := range slices.Backward(revisions[:]) {
		if r.era == e {
			return Revision{uint8(i + 1)}
		}
	}
	return Revision{}
}

// IsOldest reports whether name is the name of the oldest supported revision.
func IsOldest(name string) bool { return name == revisions[0].name }

// Lookup returns the revision of the era with the given name.
func (e Era) Lookup(name string) (Revision, bool) {
	if r, ok := Lookup(name); ok && r.Era() == e {
		return r, true
	}
	return Revision{}, false
}

// Negotiate returns the revision with which a server answers a client's request for the revision
// asked: the same revision if supported, otherwise the newest supported revision, which the client
// may refuse (revision 2025-11-25, basic/lifecycle, "Version Negotiation").
func (e Era) Negotiate(asked string) Revision {
	if r, ok := e.Lookup(asked); ok {
		return r
	}
	return e.Newest()
}

// The error codes of MCP. The codes of JSON-RPC 2.0 are in package wire.
const (
	// CodeResourceNotFound means that no resource has the given URI (revision 2025-11-25,
	// server/resources, "Error Handling").
	CodeResourceNotFound = -32002
	// CodeURLElicitationRequired means that the user has to visit a page first (revision
	// 2025-11-25, client/elicitation, "URL Elicitation Required Error").
	CodeURLElicitationRequired = -32042
	// CodeHeaderMismatch means that a header of a request over HTTP is missing, malformed, or
	// differs from the body (revision 2026-07-28, basic/transports/ streamable-http, "Standard
	// Headers").
	CodeHeaderMismatch = -32020
	// CodeMissingCapability means that a request needs a capability which the request does not
	// declare (revision 2026-07-28, schema, MissingRequiredClientCapabilityError).
	CodeMissingCapability = -32021
	// CodeUnsupportedVersion means that the server does not support the revision of a request
	// (revision 2026-07-28, basic/versioning).
	CodeUnsupportedVersion = -32022
)

// Error codes of the streamable HTTP transport. The specification does not define them; the
// TypeScript SDK sends these codes (typescript-sdk, server/streamableHttp.ts).
const (
	CodeHTTPRefused     = -32000 // the HTTP request is refused
	CodeSessionNotFound = -32001 // the session has ended or never existed
)

// IsReservedCode reports whether JSON-RPC 2.0 defines an error code, or leaves it to
// implementations of servers ("Error object").
func IsReservedCode(code int) bool {
	return code == -32700 || -32603 <= code && code <= -32600 || -32099 <= code && code <= -32000
}
