package peer

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
)

// Headers between replicas. Those that a client sends are removed.
const (
	tokenHeader  = "Mcp-Metatool-Token"  // digest of the token; none if there is no token
	clientHeader = "Mcp-Metatool-Client" // address of the client
	// refusedHeader is in the answer to a request that was not given to the handler, since the
	// key of the sender has been taken away.
	refusedHeader = "Mcp-Metatool-Refused"
)

// notPassed are the headers that belong to one connection (RFC 9110, section 7.6.1), those that
// say who the client is, which the first replica has found out, and those by which the client of
// net/http would take a request for one that it may repeat.
var notPassed = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Expect", "Content-Length", "Host",
	"Authorization", "Cookie", "Idempotency-Key", "X-Idempotency-Key", tokenHeader, clientHeader, refusedHeader,
}

// passed returns the headers of a message that go through.
func passed(from http.Header) http.Header {
	all := from.Clone()
	for _, value := range from["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			all.Del(textproto.TrimString(name))
		}
	}
	for _, name := range notPassed {
		delete(all, name)
	}
	return all
}

// sign adds who the client is.
func sign(h http.Header, token bearer.Digest, client string) {
	if token != (bearer.Digest{}) {
		h.Set(tokenHeader, token.String())
	}
	h.Set(clientHeader, client)
}
