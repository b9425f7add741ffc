package compose

import (
	"bytes"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// The types of content blocks, with the protocol revision that has brought them
// (schema, ContentBlock; "" was there from the first one on).
var blockTypes = map[string]string{
	"text": "", "image": "", "resource": "", "audio": "2025-03-26", "resource_link": "2025-06-18",
}

// contentOf are the content blocks that a script's result stands for, text
// first; none when it is a plain value. It stands for blocks if it is one, or a
// list of blocks and texts; in a list with a block that is more than text,
// whatever else there is becomes text too. Blocks pass as they are, but those of
// a type that the revision lacks become text that tells of them.
func contentOf(result []byte, revision string) [][]byte {
	if !bytes.Contains(result, []byte(`"type":"`)) { // as guests write it
		return nil
	}
	items := [][]byte{result}
	if result[0] == '[' {
		items, _ = wire.Elements(result)
	}
	anyBlock, rich, other := false, false, false
	kinds := make([]string, len(items))
	for i, item := range items {
		kinds[i] = blockType(item)
		anyBlock = anyBlock || kinds[i] != ""
		rich = rich || kinds[i] != "" && kinds[i] != "text"
		other = other || kinds[i] == "" && item[0] != '"'
	}
	if !anyBlock || other && !rich {
		return nil
	}
	var texts, others [][]byte
	for i, item := range items {
		switch since := blockTypes[kinds[i]]; {
		case kinds[i] == "text":
			texts = append(texts, item)
		case kinds[i] == "" && item[0] == '"':
			texts = append(texts, textBlock(item))
		case kinds[i] == "":
			texts = append(texts, textBlock(wire.Quote(string(item))))
		case revision != "" && revision < since:
			texts = append(texts, textBlock(wire.Quote(instead(kinds[i], item))))
		default:
			others = append(others, item)
		}
	}
	return append(texts, others...)
}

// blockType is the type of a content block, "" for what is none: a block has all
// members that its type must have, and one of text nothing that is unknown.
func blockType(raw []byte) string {
	if !wire.Object(raw) {
		return ""
	}
	kind, _ := wire.GetString(raw, "type")
	has := func(path ...string) bool { _, ok := wire.GetString(raw, path...); return ok }
	ok := false
	switch kind {
	case "text":
		ok = has("text")
		eachMember(raw, func(name string, _ []byte) {
			ok = ok && (name == "type" || name == "text" || name == "annotations" || name == "_meta")
		})
	case "image", "audio":
		ok = has("data") && has("mimeType")
	case "resource":
		ok = has("resource", "uri") && (has("resource", "text") || has("resource", "blob"))
	case "resource_link":
		ok = has("uri") && has("name")
	}
	if !ok {
		return ""
	}
	return kind
}

// instead is the text for a block that a client cannot take.
func instead(kind string, raw []byte) string {
	if kind == "resource_link" {
		uri, _ := wire.GetString(raw, "uri")
		name, _ := wire.GetString(raw, "name")
		return fmt.Sprintf("%s: %s", name, uri)
	}
	mimeType, _ := wire.GetString(raw, "mimeType")
	data, _ := wire.GetString(raw, "data")
	return fmt.Sprintf("[%s, %s, %d bytes: left out, the protocol revision of this client has no such content]", kind, mimeType, len(data)/4*3)
}

// textBlock is a content block; text is a JSON string.
func textBlock(text []byte) []byte {
	block := object{}
	block.text("type", "text")
	block.raw("text", text)
	return block.bytes()
}
