package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// pretty indents raw JSON with unchanged numbers, and cuts the text to about most bytes; 0 means no
// limit. left describes the removed part, "" for none.
func pretty(raw []byte, most int) (text, left string) {
	if raw == nil {
		return "", ""
	}
	if most > 0 && len(raw) > 8*most { // indenting the whole text for the beginning alone takes long
		return cut(string(raw), most)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return cut(string(raw), most)
	}
	return cut(b.String(), most)
}

// cut returns the beginning of text, made safe to display, and how much was cut off.
func cut(text string, most int) (head, left string) {
	if most > 0 && len(text) > most {
		all := len(text)
		text = display.Head(text, most)
		left = fmt.Sprintf("%s more", display.Size(uint64(all-len(text))))
	}
	return display.Text(text), left
}
