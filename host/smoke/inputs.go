package smoke

import (
	"slices"
)

// Inputs are the files that the checks of a file depend on: itself, scripts,
// cassettes and locks, whether they are there or not. Of a file that is wrong
// only itself is known.
func Inputs(path string, opts LoadOptions) []string {
	names := []string{path}
	f, err := Load(path, opts)
	if err != nil {
		return names
	}
	for _, c := range f.Checks {
		names = append(names, c.Code.File, c.locked())
		if c.Mock != nil {
			names = append(names, c.Mock.File)
		}
		names = append(names, c.schemas...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}
