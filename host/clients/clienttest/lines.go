package clienttest

import (
	"fmt"
	"regexp"
	"strings"
)

// Envelope is $E in a conversation. An object with more members may follow.
const Envelope = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`

// ResultMeta is $S in a conversation: the _meta of results of the stateless era.
const ResultMeta = `{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1.2.3"}}`

// Lines are the messages of a conversation. $STATE in a line to be received is any requestState; in
// later sent lines $STATE is the received requestState.
type Lines struct{ state string }

// Sent returns a line in the form for sending.
func (l *Lines) Sent(line string) string {
	open := strings.TrimSuffix(Envelope, "}") + ","
	line = strings.ReplaceAll(line, "$E{", open)
	line = strings.ReplaceAll(line, "$E", Envelope)
	return strings.ReplaceAll(line, "$STATE", l.state)
}

// Check returns a description of the error in a received line, or "".
func (l *Lines) Check(got, want string) string {
	want = strings.ReplaceAll(want, "$S,", ResultMeta+",")
	want = strings.ReplaceAll(want, "$S}", ResultMeta+"}")
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\$STATE`, "([A-Za-z0-9_-]+)") + "$"
	found := regexp.MustCompile(pattern).FindStringSubmatch(got)
	if found == nil {
		return fmt.Sprintf("got  %s\nwant %s", got, want)
	}
	if len(found) > 1 {
		l.state = found[1]
	}
	return ""
}
