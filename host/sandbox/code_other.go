//go:build !linux

package sandbox

// codeRegion is not known on this system.
type codeRegion struct{}

func codeRegions() map[codeRegion]bool { return nil }

func (*compileCache) mapCode(map[codeRegion]bool) error { return nil }

func dropResident([]byte) {}
