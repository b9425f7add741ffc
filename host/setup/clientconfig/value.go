package clientconfig

// object is an object of JSON or a table of TOML. The values are string, bool, number,
// []any, *object, and nil for everything else.
type object struct {
	keys   []string
	fields map[string]any
}

// number is a number as in the file.
type number string

func newObject() *object { return &object{fields: map[string]any{}} }

// set sets a key. The last value of a repeated key counts, as in all hosts.
func (o *object) set(key string, v any) {
	if _, twice := o.fields[key]; !twice {
		o.keys = append(o.keys, key)
	}
	o.fields[key] = v
}

// at returns the object at a path, nil for none.
func (o *object) at(path ...string) *object {
	for _, key := range path {
		if o == nil {
			return nil
		}
		o, _ = o.fields[key].(*object)
	}
	return o
}
