package abi

import "strings"

// Ident returns the script name of a server or tool: each byte not allowed in a Starlark identifier
// becomes an underscore, and a leading digit gets an underscore in front. Different names can have
// the same script name; code building a list of script names has to report collisions.
func Ident(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_':
			b.WriteByte(c)
		case c >= '0' && c <= '9':
			if i == 0 {
				b.WriteByte('_')
			}
			b.WriteByte(c)
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
}
