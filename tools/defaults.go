package tools

import (
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// defaultOf is the default of a property: its own, or that of the schema it
// refers to. A default that its own schema does not allow is none.
func (e *evaluation) defaultOf(s *jsonschema.Schema) (any, bool) {
	for from := s; from != nil; from = from.Ref {
		e.meter.take(nameCost)
		if from.Default != nil {
			return *from.Default, e.start(s, *from.Default, true) == nil
		}
	}
	return nil, false
}

func (e *evaluation) hasDefault(s *jsonschema.Schema) bool {
	_, ok := e.defaultOf(s)
	return ok
}

// Fill is not done yet.
func (s *Schema) Fill(args []byte, spend Spend) ([]byte, error) { return args, nil }
