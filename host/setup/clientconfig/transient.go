package clientconfig

import (
	"path/filepath"
	"slices"
	"strings"
)

// Transient returns the program that will delete the file of a path, for example a package manager
// with the next version; "" if none is known.
func Transient(path string) string {
	parts := strings.Split(filepath.ToSlash(path), "/")
	for i, part := range parts {
		switch {
		case part == "_npx", strings.HasPrefix(part, "bunx-"), part == "dlx" && slices.Contains(parts[:i], "pnpm"):
			return "npx, pnpm dlx or bunx, with the cache"
		case part == "Cellar", part == "Caskroom":
			return "Homebrew, with the next version"
		case part == "store" && i > 0 && parts[i-1] == "nix":
			return "Nix, with the next version"
		case strings.HasPrefix(part, "go-build"):
			return "go run, when it ends"
		}
	}
	return ""
}
