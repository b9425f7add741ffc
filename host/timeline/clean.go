package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/display"
)

// pretty is raw JSON on several lines, its numbers as they are, and not much
// more than most bytes of it; most is 0 for all. How much is left out is told.
func pretty(raw []byte, most int) (text, left string) {
	if raw == nil {
		return "", ""
	}
	if most > 0 && len(raw) > 8*most { // reading all of it for its beginning alone takes long
		return cut(string(raw), most)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return cut(string(raw), most)
	}
	return cut(b.String(), most)
}

// cut is the beginning of text, clean, and how much was cut off.
func cut(text string, most int) (head, left string) {
	if most > 0 && len(text) > most {
		i := most
		for i > 0 && !utf8.RuneStart(text[i]) {
			i--
		}
		text, left = text[:i], fmt.Sprintf("%s more", display.Size(uint64(len(text)-i)))
	}
	return display.Text(text), left
}
