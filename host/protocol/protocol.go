// Package protocol is the table of the MCP revisions that this program speaks:
// the methods, the features and the error codes of each. No other package
// compares revisions or spells their names; they ask this one:
//
//	revision.Has(protocol.Batches)
//	protocol.Handshake.Negotiate("2025-06-18")
//
// A test keeps that rule for the whole module. Files:
//
//	protocol.go  Revision and Era: what other packages ask
//	table.go     the revisions, as lists of what each adds and removes
//	feature.go   the features that differ between revisions
//	method.go    the names of methods, who sends them, and what they need
//	code.go      the error codes
//
// To speak another revision, add its row to the table. A row says what the
// revision adds and removes, with the page of the specification that says so.
// Methods that we do not know are passed on unchanged, so the table is not a
// filter.
//
// The package imports only the standard library. Nothing in it changes after
// initialization, so everything is safe for concurrent use.
package protocol

import "slices"

// Era is a generation of the protocol: how a client and a server agree on the
// revision that they speak.
type Era uint8

const (
	// Handshake is the era of sessions: initialize settles the revision of all
	// messages that follow (revisions up to 2025-11-25, basic/lifecycle).
	Handshake Era = iota + 1
	// Stateless is the era without sessions: each request names its revision
	// (revision 2026-07-28, basic/index). No revision of it is spoken yet.
	Stateless
)

// Revision is a protocol revision that we speak. Revisions can be compared with
// == only; which of two is newer is of no use to a caller, see [Revision.Has].
// The zero value stands for none: that of a session before initialize.
type Revision struct {
	number uint8 // 1 + index in revisions
}

// String is the name of the revision, such as "2025-11-25"; "" for none.
func (r Revision) String() string { return r.row().name }

// IsZero reports whether r is no revision.
func (r Revision) IsZero() bool { return r.number == 0 }

// Era is the era of the revision; 0 for none.
func (r Revision) Era() Era { return r.row().era }

// Has reports whether the revision has a feature. The zero Revision has none.
func (r Revision) Has(f Feature) bool { return r.row().has&(1<<f) != 0 }

// Methods are the requests and notifications that the revision defines, in the
// order of the table. The caller must not change the slice.
func (r Revision) Methods() []Method { return r.row().allMethods }

// Method finds a request or notification of the revision by who sends it and by
// its name.
func (r Revision) Method(from Party, name string) (Method, bool) {
	return find(r.row().allMethods, from, name)
}

// Codes are the error codes that the revision defines beyond those of JSON-RPC
// 2.0. The caller must not change the slice.
func (r Revision) Codes() []int { return r.row().allCodes }

func (r Revision) row() *row {
	if r.number == 0 {
		return &none
	}
	return &revisions[r.number-1]
}

// Lookup finds a revision of any era by its name.
func Lookup(name string) (Revision, bool) {
	for i := range revisions {
		if revisions[i].name == name {
			return Revision{uint8(i + 1)}, true
		}
	}
	return Revision{}, false
}

// FindMethod finds a request or notification by who sends it and by its name,
// in the newest revision that has it.
func FindMethod(from Party, name string) (Method, bool) {
	for i := len(revisions) - 1; i >= 0; i-- {
		if m, ok := find(revisions[i].allMethods, from, name); ok {
			return m, true
		}
	}
	return Method{}, false
}

// Revisions are those of the era that we speak, newest first.
func (e Era) Revisions() []Revision {
	var all []Revision
	for i := len(revisions) - 1; i >= 0; i-- {
		if revisions[i].era == e {
			all = append(all, Revision{uint8(i + 1)})
		}
	}
	return all
}

// Names are the names of the era's revisions, newest first.
func (e Era) Names() []string {
	var names []string
	for _, r := range e.Revisions() {
		names = append(names, r.String())
	}
	return names
}

// Newest is the newest revision of the era; none if we speak none of it.
func (e Era) Newest() Revision {
	for i, r := range slices.Backward(revisions[:]) {
		if r.era == e {
			return Revision{uint8(i + 1)}
		}
	}
	return Revision{}
}

// Lookup finds a revision of the era by its name.
func (e Era) Lookup(name string) (Revision, bool) {
	if r, ok := Lookup(name); ok && r.Era() == e {
		return r, true
	}
	return Revision{}, false
}

// Negotiate is the revision that a server answers with when a client asks for
// one: that one if we speak it, else our newest, which the client may refuse
// (revision 2025-11-25, basic/lifecycle, "Version Negotiation").
func (e Era) Negotiate(asked string) Revision {
	if r, ok := e.Lookup(asked); ok {
		return r
	}
	return e.Newest()
}
