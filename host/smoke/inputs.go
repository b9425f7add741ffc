package smoke

import (
	"slices"
)

// Inputs returns the files that the checks of a file depend on: the file itself, scripts,
// cassettes and locks, whether they exist or not. If the file cannot be read, it returns
// only the file itself.
func Inputs(path string, opts LoadOptions) []string {
	names := []string{path}
	f, err := Load(path, opts)
	if err != nil {
		return names
	}
	for _, c := range f.Checks {
		names = append(names, c.Code.File, c.lockFile())
		if c.Mock != nil {
			names = append(names, c.Mock.File)
		}
		names = append(names, c.schemas...)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}
