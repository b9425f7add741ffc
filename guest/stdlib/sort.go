package stdlib

import (
	"slices"

	"go.starlark.net/starlark"
)

// Sort sorts values as sorted does: stably, by a key function of the script unless key is nil or
// None.
func (c *Call) Sort(values []starlark.Value, key starlark.Value, reverse bool) error {
	keys := values
	if key != nil && key != starlark.None {
		keys = make([]starlark.Value, len(values))
		for i, v := range values {
			k, err := c.Call(key, v)
			if err != nil {
				return err
			}
			keys[i] = k
		}
	}
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		if failed != nil {
			return 0
		}
		if reverse {
			i, j = j, i
		}
		less, err := Less(keys[i], keys[j])
		if err == nil && !less {
			var more bool
			if more, err = Less(keys[j], keys[i]); more {
				return 1
			}
		}
		failed = err
		if less {
			return -1
		}
		return 0
	})
	if failed != nil {
		return failed
	}
	sorted := make([]starlark.Value, len(values))
	for i, j := range order {
		sorted[i] = values[j]
	}
	copy(values, sorted)
	return nil
}
