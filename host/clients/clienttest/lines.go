package clienttest

import (
	"fmt"
	"regexp"
	"strings"
)

// Envelope is $E in a conversation. It may be followed by an object with more members.
const Envelope = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`

// ResultMeta is $S in a conversation: the _meta of results of the stateless era.
const ResultMeta = `{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1.2.3"}}`

// Lines are the messages of a conversation. $STATE in a line that must be received is any
// requestState; in lines that are sent after that, it is the same one.
type Lines struct{ state string }

// Sent returns a line as it is to be sent.
func (l *Lines) Sent(line string) string {
	open := strings.TrimSuffix(Envelope, "}") + ","
	line = strings.ReplaceAll(line, "$E{", open)
	line = strings.ReplaceAll(line, "$E", Envelope)
	return strings.ReplaceAll(line, "$STATE", l.state)
}

// Check returns what is wrong with a line that was received, "" if nothing is.
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
