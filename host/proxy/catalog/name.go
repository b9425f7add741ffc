package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the maximum length of tool names in the common MCP hosts and model APIs. They accept
// only the bytes [A-Za-z0-9_-].
const maxName = 64

// PublicName returns the name of an upstream's tool for clients: prefix and name, if the result is
// a valid name. Otherwise PublicName replaces invalid bytes with underscores, shortens the name,
// and adds a short hash of the original, so that the name is unique and stable.
func PublicName(prefix, tool string) string {
	name := prefix + tool
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	if clean == name && len(name) <= maxName && name != "" {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return clean[:min(len(clean), maxName-len(suffix))] + suffix
}
