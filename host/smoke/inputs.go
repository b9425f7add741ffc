package smoke

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Inputs returns the files on which the checks of a file depend: the file itself, scripts,
// cassettes, locks, rows, snapshots and its configuration, whether they exist or not, as far as the
// file can be read.
func Inputs(path string, opts LoadOptions) []string {
	names := []string{path}
	data, err := config.ReadFile(opts.Load, path)
	if err != nil {
		return names
	}
	f, _ := parse(path, data, opts)
	names = append(names, f.rowFiles...)
	if !opts.Offline {
		names = append(names, f.extends)
	}
	if f.verifyPins && f.Config != nil {
		names = append(names, f.Config.PinsPath())
	}
	for _, c := range f.Checks {
		names = append(names, c.Code.File, c.lockFile())
		if c.Mock != nil {
			names = append(names, c.Mock.File)
		}
		if c.snapshot != nil {
			names = append(names, c.snapshot.place.String())
		}
		names = append(names, c.schemas...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}
