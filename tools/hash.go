package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// hashFormat is the first line of the hashed text, and must change with the format of the text.
const hashFormat = "mcp-metatool definition 1\n"

// Hash identifies everything that affects a run of the tool: name, code, schemas, limits,
// durability and the bounds of permissions, but not description, times, counts, or anything derived
// from the code. The hash is the SHA-256, in lower-case hexadecimal, of a line naming the format,
// followed for each part by a line "PART LENGTH" and LENGTH bytes:
//
//	name, code    unchanged
//	inputSchema   without white space between tokens, otherwise unchanged
//	outputSchema  likewise; absent if the tool has none
//	limits        "fuel=N memory=BYTES timeout=NANOSECONDS calls=N"; absent if
//	              none is set
//	durable       what happens in doubt; absent if the tool is not durable
//	bounds        Permissions.Bounds as a JSON array; absent if there are none
//	labels        Labels, with commas between them; absent if there are none
//
// A schema that is not JSON is hashed unchanged.
func (d *Definition) Hash() string {
	h := sha256.New()
	io.WriteString(h, hashFormat) // writing to a hash never fails
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
	if text := d.Durability.text(); text != "" {
		part("durable", []byte(text))
	}
	if bounds := d.bounds(); bounds != "" {
		part("bounds", []byte(bounds))
	}
	if len(d.Labels) > 0 {
		part("labels", []byte(strings.Join(d.Labels, ",")))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func compactOrAsIs(raw []byte) []byte {
	if flat, err := compact(raw); err == nil {
		return flat
	}
	return raw
}
