// Package protocol is the table of the MCP revisions that this program supports: the
// methods, the features and the error codes of each. No other package compares revisions
// or contains their names. They use this package:
//
//	revision.Has(protocol.Batches)
//	protocol.Handshake.Negotiate("2025-06-18")
//
// A test enforces that rule for the whole module. Files:
//
//	protocol.go  Revision and Era, which other packages use
//	table.go     the revisions, as lists of what each adds and removes
//	feature.go   the features that differ between revisions
//	method.go    the names of methods, who sends them, and what they need
//	code.go      the error codes
//
// To support another revision, add its row to the table. A row lists what the revision
// adds and removes, with the page of the specification that says so. The table is not a
// filter: methods that we do not know are forwarded unchanged.
//
// The package imports only the standard library. Nothing in it changes after
// initialization, so everything is safe for concurrent use.
package protocol

import "slices"

// Era is a generation of the protocol. It determines how a client and a server agree on a
// revision.
type Era uint8

const (
	// Handshake is the era of sessions: initialize determines the revision of all
	// messages that follow (revisions up to 2025-11-25, basic/lifecycle).
	Handshake Era = iota + 1
	// Stateless is the era without sessions: each request names its revision (revision
	// 2026-07-28, basic/versioning).
	Stateless
)

// Revision is a protocol revision that we support. Revisions can be compared with == but
// not ordered; use [Revision.Has] instead. The zero value means no revision, as of a
// session before initialize.
type Revision struct {
	number uint8 // 1 + index in revisions
}

// String returns the name of the revision, such as "2025-11-25"; "" for the zero
// Revision.
func (r Revision) String() string { return r.row().name }

// IsZero reports whether r is the zero Revision.
func (r Revision) IsZero() bool { return r.number == 0 }

// Era returns the era of the revision; 0 for the zero Revision.
func (r Revision) Era() Era { return r.row().era }

// Has reports whether the revision has a feature. The zero Revision has none.
func (r Revision) Has(f Feature) bool { return r.row().has&(1<<f) != 0 }

// Methods returns the requests and notifications that the revision defines, in the order
// of the table. The caller must not change the slice.
func (r Revision) Methods() []Method { return r.row().allMethods }

// Method returns a request or notification of the revision, given its sender and its
// name.
func (r Revision) Method(from Party, name string) (Method, bool) {
	return find(r.row().allMethods, from, name)
}

// Codes returns the error codes that the revision defines in addition to those of
// JSON-RPC 2.0. The caller must not change the slice.
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

// FindMethod returns a request or notification, given its sender and its name, of the
// newest revision that has it.
func FindMethod(from Party, name string) (Method, bool) {
	for i := len(revisions) - 1; i >= 0; i-- {
		if m, ok := find(revisions[i].allMethods, from, name); ok {
			return m, true
		}
	}
	return Method{}, false
}

// Revisions returns the revisions of the era that we support, newest first.
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

// IsOldest reports whether name is that of the oldest revision that we support.
func IsOldest(name string) bool { return name == revisions[0].name }

// Lookup returns the revision of the era with the given name.
func (e Era) Lookup(name string) (Revision, bool) {
	if r, ok := Lookup(name); ok && r.Era() == e {
		return r, true
	}
	return Revision{}, false
}

// Negotiate returns the revision with which a server answers a client's request for one:
// the same one if we support it, otherwise our newest, which the client may refuse
// (revision 2025-11-25, basic/lifecycle, "Version Negotiation").
func (e Era) Negotiate(asked string) Revision {
	if r, ok := e.Lookup(asked); ok {
		return r
	}
	return e.Newest()
}
