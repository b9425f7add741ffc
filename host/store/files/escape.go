package files

import (
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
)

// extension ends the names of files with documents that only a Store uses.
const extension = ".doc"

// escape returns the name of the file for the name of a document. What is not a lower-case
// letter, a digit, "-" or "_" becomes %XX, so that no system takes two names for one, or a
// name for something else. A name that would be too long for a file is "~" and base32.
func escape(name string) string {
	var b strings.Builder
	for i, c := range []byte(name) {
		if isPlain(c) && (i > 0 || !isDevice(name)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	if b.Len() > longest {
		return "~" + encoding.EncodeToString([]byte(name)) + extension
	}
	return b.String() + extension
}

// longest is the length of an escaped name that still leaves room for what temporary files are
// called; file systems have names of 255 bytes.
const longest = 220

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// unescape returns the name of a document by that of its file; ok is false if there is none.
func unescape(file string) (name string, ok bool) {
	text, ok := strings.CutSuffix(file, extension)
	if !ok {
		return "", false
	}
	if long, is := strings.CutPrefix(text, "~"); is {
		decoded, err := encoding.DecodeString(long)
		return string(decoded), err == nil && escape(string(decoded)) == file
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		if i+3 > len(text) {
			return "", false
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), escape(b.String()) == file // each document has one file
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// isDevice reports whether Windows takes a name for that of a device, whatever its extension.
func isDevice(name string) bool {
	switch name {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(name) == 4 && (strings.HasPrefix(name, "com") || strings.HasPrefix(name, "lpt")) && name[3] >= '0' && name[3] <= '9'
}
