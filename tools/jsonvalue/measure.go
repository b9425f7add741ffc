package jsonvalue

// The largest sizes in a tree, in bytes, without the texts.
const (
	valueBytes  = 96  // an any in an array that grows, or in a map, with the header of the text
	memberBytes = 64  // more for a member, as long as the map grows
	objectBytes = 352 // a map of up to eight members
	arrayBytes  = 48
)

// measure returns the number of values in a text, and a bound of the tree's bytes. In an invalid
// text, it measures at least the part before the fault. It builds nothing.
func measure(raw []byte) (values int, size int64) {
	values = 1
	inText := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if inText {
			if c == '\\' {
				i++
			}
			inText = c != '"'
			continue
		}
		switch c {
		case '"':
			inText = true
		case ',':
			values++
		case ':':
			size += memberBytes
		case '{', '[':
			size += arrayBytes
			if isEmpty(raw[i+1:]) {
				continue
			}
			values++
			if c == '{' {
				size += objectBytes
			}
		}
	}
	return values, size + int64(values)*valueBytes
}

// isEmpty reports whether an object or an array with its beginning read ends at once.
func isEmpty(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '}' || c == ']'
		}
	}
	return true
}
