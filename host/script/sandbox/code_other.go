//go:build !linux

package sandbox

import "context"

// codeRegion is not known on this system.
type codeRegion struct{}

func codeRegions() map[codeRegion]bool { return nil }

func (*compileCache) mapCode(context.Context, map[codeRegion]bool) error { return nil }
