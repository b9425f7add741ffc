package abi

import "strings"

// Ident returns the script name of a server or tool: each byte that cannot be in a
// Starlark identifier becomes an underscore, and a leading digit gets one in front.
// Different names can have the same script name; code that builds a list of them
// has to report such collisions.
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
