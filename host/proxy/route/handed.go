package route

import (
	"bytes"
	"crypto/sha256"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// maxHanded is how many URIs of a session are remembered with their servers.
const maxHanded = 256

// uriDigest stands for a URI, so that long URIs take no memory.
type uriDigest = [sha256.Size]byte

// noteURIs remembers which server gave a session the URIs of resources in a result. If no server
// lists a URI, a request for the URI goes to this server only.
func (r *Router) noteURIs(s Session, server string, reply wire.Reply) {
	if s == nil || !bytes.Contains(reply.Result, []byte(`"uri"`)) {
		return
	}
	var found []uriDigest
	note := func(item []byte) {
		for _, path := range [][]string{{"uri"}, {"resource", "uri"}} {
			if uri, ok := wire.GetString(item, path...); ok && len(found) < maxHanded {
				found = append(found, sha256.Sum256([]byte(uri)))
			}
		}
	}
	for _, list := range []string{"content", "contents", "messages"} {
		raw, _ := wire.Get(reply.Result, list)
		items, _ := wire.Elements(raw)
		for _, item := range items {
			note(item)
			if content, ok := wire.Get(item, "content"); ok && list == "messages" {
				note(content)
			}
		}
	}
	if len(found) == 0 {
		return
	}
	r.with(s, func(c *client) {
		for _, uri := range found {
			c.handed.put(uri, server, entryMemory)
		}
	})
}

// handedBy returns the server that last gave a session a URI.
func (r *Router) handedBy(s Session, uri string) (server string, ok bool) {
	r.with(s, func(c *client) { server, ok = c.handed.get(sha256.Sum256([]byte(uri))) })
	return server, ok
}
