package route

import "slices"

// recent is a map of at most limit entries. A further one replaces the oldest.
type recent[K comparable, V any] struct {
	limit  int
	values map[K]V
	order  []K // oldest first
}

func (r *recent[K, V]) get(k K) (V, bool) {
	v, ok := r.values[k]
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if r.values == nil {
		r.values = map[K]V{}
	}
	if _, ok := r.values[k]; !ok {
		if len(r.order) == r.limit {
			delete(r.values, r.order[0])
			r.order = slices.Delete(r.order, 0, 1)
		}
		r.order = append(r.order, k)
	}
	r.values[k] = v
}

// take removes an entry and returns its value.
func (r *recent[K, V]) take(k K) (V, bool) {
	v, ok := r.values[k]
	if ok {
		delete(r.values, k)
		at := slices.Index(r.order, k)
		r.order = slices.Delete(r.order, at, at+1)
	}
	return v, ok
}
