package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest tool name that the common MCP hosts and model
// interfaces take; they also take no bytes but [A-Za-z0-9_-].
const maxName = 64

// PublicName is the name under which agents see an upstream's tool: prefix and
// name as they are where that is a good name; otherwise odd bytes become
// underscores, the rest is cut, and a short hash of the original makes it
// unique and stable.
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
