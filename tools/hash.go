package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// hashFormat is the first line of what is hashed: another form of it is another
// name.
const hashFormat = "mcp-metatool definition 1\n"

// Hash identifies what decides a run of the tool: its name, code, schemas and
// limits; not its description, times and counts. It is the SHA-256, in lower-case
// hexadecimal, of a line that names the form, then for each part a line
// "PART LENGTH" and LENGTH bytes:
//
//	name, code    as they are
//	inputSchema   without white space between tokens, all else as it is written
//	outputSchema  likewise; absent when the tool has none
//	limits        "fuel=N memory=BYTES timeout=NANOSECONDS calls=N", absent when
//	              none is set
//
// A schema that is not JSON is hashed as it is.
func (d *Definition) Hash() string {
	h := sha256.New()
	io.WriteString(h, hashFormat) // a hash never fails to be written to
	part := func(name string, content []byte) {
		fmt.Fprintf(h, "%s %d\n", name, len(content))
		h.Write(content)
	}
	part("name", []byte(d.Name))
	part("code", []byte(d.Code))
	part("inputSchema", compactOrAsIs(d.InputSchema))
	if d.OutputSchema != nil {
		part("outputSchema", compactOrAsIs(d.OutputSchema))
	}
	if l := d.Limits; l.Fuel != 0 || l.Memory != 0 || l.Timeout != 0 || l.Calls != 0 {
		part("limits", fmt.Appendf(nil, "fuel=%d memory=%d timeout=%d calls=%d", l.Fuel, l.Memory, l.Timeout, l.Calls))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func compactOrAsIs(raw []byte) []byte {
	if flat, err := compact(raw); err == nil {
		return flat
	}
	return raw
}
