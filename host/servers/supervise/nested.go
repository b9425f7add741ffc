package supervise

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// An mcp-metatool may be an upstream server of itself: a process started by another mcp-metatool
// with the same configuration, or the answering process itself. The mcp-metatool would start itself
// again, without end.
//
// A server is started with [NestedVariable] in the environment, through any other program: npx, a
// shell, a renamed binary. For servers in containers and at addresses, the answers to initialize
// and server/discover have the same information under [NestedKey].

// NestedVariable is the environment variable with the marks of the configuration files of all
// mcp-metatools above a process, the outermost first, with colons between them.
const NestedVariable = "MCP_METATOOL_WITHIN"

// NestedKey is the key in _meta of our answer to initialize and server/discover with the digest of
// our configuration.
const NestedKey = "io.github.mcp-metatool/configuration"

// maxNested is how many mcp-metatools may be started by each other.
const maxNested = 16

// ErrNested is matched by errors.Is if an mcp-metatool is an upstream server of itself.
var ErrNested = errors.New("this mcp-metatool is an upstream server of itself")

// NestedEnv returns the variable for the upstream servers of a configuration, as NAME=VALUE.
func NestedEnv(cfg *config.Config) string {
	marks := os.Getenv(NestedVariable)
	for _, m := range fileMarks(cfg)[:1] {
		marks = strings.TrimPrefix(marks+":"+m, ":")
	}
	return NestedVariable + "=" + marks
}

// CheckNested returns an error, which matches [ErrNested], if this process was started by an
// mcp-metatool with the configuration cfg, or by too many other ones.
func CheckNested(cfg *config.Config) error {
	within := strings.Split(os.Getenv(NestedVariable), ":")
	for _, m := range fileMarks(cfg) {
		if slices.Contains(within, m) {
			return fmt.Errorf("%w: it was started by an mcp-metatool with the same configuration, %s (remove the server that starts mcp-metatool from it, or give that server another --config)",
				ErrNested, files(cfg)[0])
		}
	}
	if len(within) > maxNested {
		return fmt.Errorf("%w: %d of them were started by each other (remove the servers that start mcp-metatool from their configurations)", ErrNested, len(within))
	}
	return nil
}

// files returns the file of a configuration, or the files that were looked for.
func files(cfg *config.Config) []string {
	if cfg.Path != "" {
		return []string{cfg.Path}
	}
	return append(slices.Clone(cfg.Searched), "")
}

// fileMarks returns a short mark of each file, which does not reveal the path.
func fileMarks(cfg *config.Config) []string {
	var marks []string
	for _, file := range files(cfg) {
		if abs, err := filepath.Abs(file); err == nil && file != "" {
			file = abs
		}
		if real, err := filepath.EvalSymlinks(file); err == nil {
			file = real
		}
		sum := sha256.Sum256([]byte(file))
		marks = append(marks, hex.EncodeToString(sum[:8]))
	}
	return marks
}

// AddNestedMeta returns the raw object meta, or a new object if meta is nil, with the digest of
// cfg.
func AddNestedMeta(meta []byte, cfg *config.Config) []byte {
	if cfg.Digest() == "" {
		return meta
	}
	with, err := wire.Set(meta, wire.Quote(cfg.Digest()), NestedKey)
	if err != nil { // the servers' description of themselves is not an object
		return meta
	}
	return with
}

// CheckNestedResult returns an error, which matches [ErrNested], if the raw result of initialize or
// server/discover comes from an mcp-metatool with the configuration cfg.
func CheckNestedResult(result []byte, cfg *config.Config) error {
	if digest, ok := wire.GetString(result, "_meta", NestedKey); ok && digest == cfg.Digest() {
		return fmt.Errorf("%w: the server is an mcp-metatool with this configuration (remove it, or give it another configuration)", ErrNested)
	}
	return nil
}
