package saved

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Place says which saved tools they are.
type Place struct {
	// Dir is the folder of the store of the configuration.
	Dir string
	// Fleet is the name of the fleet, which is the prefix of its subjects; "" without one.
	Fleet string
	// Token is the name of the token whose clients have tools of their own; "" for the tools
	// that clients share.
	Token string
}

// Folder returns the folder for tools.OpenStore. That of a fleet is another one, which has
// nothing but copies, so that what was saved before there was a fleet stays as it is.
func (p Place) Folder() string {
	dir := p.Dir
	if p.Fleet != "" {
		dir = filepath.Join(dir, "fleet", p.Fleet)
	}
	if p.Token != "" {
		dir = filepath.Join(dir, "tokens", p.Token)
	}
	return dir
}

// Collections returns the names of the collections of the tools and of their versions in the
// store of a fleet.
func (p Place) Collections() (saved, versions string) {
	names := p.collections()
	return names[tools.OfTool], names[tools.OfVersion]
}

func (p Place) collections() [3]string {
	names := [...]string{tools.OfTool: files.Tools, tools.OfVersion: files.History, tools.OfNumber: "numbers"}
	if p.Token != "" { // whose name can have other characters
		sum := sha256.Sum256([]byte(strings.ToLower(p.Token)))
		for i := range names {
			names[i] += "-" + hex.EncodeToString(sum[:10])
		}
	}
	return names
}
