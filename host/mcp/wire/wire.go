// Package wire handles JSON-RPC 2.0 messages as raw bytes. It parses a message only as far as routing
// needs: unknown members, integers of any size and future protocol revisions pass unchanged.
//
// Begin with Parse and Message; Reader and EventReader read messages from streams, Get and Set read
// and edit members, Shape refuses messages that JSON parsers would read in different ways, and Call
// describes a request to a peer.
//
// Returned slices alias the input unless stated otherwise, and must not be written to.
package wire
