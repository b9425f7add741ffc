package route

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// recent is a map of at most limit entries, for which kept has room. A further entry replaces the
// oldest.
type recent[K comparable, V any] struct {
	limit  int
	kept   *budget.Account
	values map[K]V
	sizes  map[K]int
	order  []K // oldest first
}

func (r *recent[K, V]) get(k K) (V, bool) {
	v, ok := r.values[k]
	return v, ok
}

// put sets an entry of size bytes, unless the room would be too small even without all other
// entries.
func (r *recent[K, V]) put(k K, v V, size int) {
	if r.values == nil {
		r.values, r.sizes = map[K]V{}, map[K]int{}
	}
	if _, known := r.values[k]; known && r.kept.Add(size) == nil {
		r.kept.Sub(r.sizes[k])
		r.values[k], r.sizes[k] = v, size
		return
	}
	r.take(k)
	for len(r.order) == r.limit || r.kept.Add(size) != nil {
		if len(r.order) == 0 {
			return
		}
		r.take(r.order[0])
	}
	r.values[k], r.sizes[k] = v, size
	r.order = append(r.order, k)
}

// take removes an entry and returns the value.
func (r *recent[K, V]) take(k K) (V, bool) {
	v, ok := r.values[k]
	if ok {
		r.kept.Sub(r.sizes[k])
		delete(r.values, k)
		delete(r.sizes, k)
		at := slices.Index(r.order, k)
		r.order = slices.Delete(r.order, at, at+1)
	}
	return v, ok
}
