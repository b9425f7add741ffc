package jsonvalue

// What a tree has at most, in bytes, without the texts.
const (
	valueBytes  = 96  // an any in an array that grows, or in a map, with the header of its text
	memberBytes = 64  // more for a member, as long as the map grows
	objectBytes = 352 // a map of up to eight members
	arrayBytes  = 48
)

// measure returns how many values a text has, and how many bytes its tree at most. Of a text that
// is not valid, it measures what is before the fault at least. It builds nothing.
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

// isEmpty reports whether an object or an array whose beginning was read ends at once.
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
