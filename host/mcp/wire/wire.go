// Package wire handles JSON-RPC 2.0 messages as raw bytes. It parses a message only as
// far as routing needs. Everything else keeps its original bytes, so that unknown
// members, integers of any size and future protocol revisions pass unchanged.
//
//	message.go  parsing and building messages
//	call.go     Call: a request to a peer; Permit, which can refuse it
//	scan.go     finding the end of JSON values without decoding them
//	check.go    refusing messages that JSON parsers would read differently
//	surface.go  what servers list: tools, prompts, resources, templates
//	shape.go    the known members of objects
//	edit.go     reading and editing members of an object, preserving their order
//	members.go  removing and adding several members at once
//	build.go    Object and Array: building values from raw ones
//	frame.go    newline-delimited framing (MCP stdio transport)
//	nowait_linux.go  NoWait: writing what needs no waiting (nowait_other.go: nothing)
//	events.go   EventReader: streams of server-sent events
//	uri.go      what servers may take a URI for
//	budget.go   reserving memory for large messages before they are read
//	errors.go   error codes and the error object
//
// Slices returned by this package alias their input unless stated otherwise,
// and must not be written to.
package wire
