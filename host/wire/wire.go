// Package wire handles JSON-RPC 2.0 messages as raw bytes. A message is parsed only
// as far as routing needs. Everything else keeps the bytes that came in, so that
// unknown members, integers of any size and future protocol revisions pass unchanged.
//
//	message.go  one message: parse it, build one
//	call.go     Call: a request on its way to a peer, and who may stop it
//	scan.go     where JSON values end, without decoding them
//	check.go    refusing messages that readers would understand differently
//	surface.go  what servers list: tools, prompts, resources, templates
//	shape.go    the members that we or the protocol act on
//	edit.go     order-preserving reads and edits of members of an object
//	build.go    Object and Array: new values made of raw ones
//	frame.go    newline-delimited framing (MCP stdio transport)
//	room.go     large messages wait for memory before they are read
//	errors.go   error codes and the error object
//
// Slices returned by this package alias their input unless stated otherwise,
// and must not be written to.
package wire
