package compose

import "github.com/mcp-metatool/mcp-metatool/host/mcp/wire"

// addNumber adds a number, perhaps with a fraction, to an object, unless the number is 0.
func addNumber(o *wire.Object, name string, value float64) {
	if value != 0 {
		o.Raw(name, wire.Marshal(value))
	}
}

func isEmptyObject(raw []byte) bool {
	for _, c := range raw {
		if c != '{' && c != '}' && c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
