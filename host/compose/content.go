package compose

import (
	"bytes"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// contentOf are the content blocks that a script's result stands for, text
// first; none when it is a plain value. It stands for blocks if it is one, or a
// list of blocks and texts; in a list with a block that is rich, that is more
// than text, whatever else there is becomes text too. Blocks pass as they are, but
// those of a type that the revision lacks become text that tells of them.
func contentOf(result []byte, revision protocol.Revision) (blocks [][]byte, rich bool) {
	if !bytes.Contains(result, []byte(`"type":"`)) { // as guests write it
		return nil, false
	}
	items := [][]byte{result}
	if result[0] == '[' {
		items, _ = wire.Elements(result)
	}
	anyBlock, other := false, false
	kinds := make([]string, len(items))
	for i, item := range items {
		kinds[i] = blockType(item)
		anyBlock = anyBlock || kinds[i] != ""
		rich = rich || kinds[i] != "" && kinds[i] != "text"
		other = other || kinds[i] == "" && item[0] != '"'
	}
	if !anyBlock || other && !rich {
		return nil, false
	}
	var texts, others [][]byte
	for i, item := range items {
		switch {
		case kinds[i] == "text":
			texts = append(texts, item)
		case kinds[i] == "" && item[0] == '"':
			texts = append(texts, textBlock(item))
		case kinds[i] == "":
			texts = append(texts, textBlock(wire.Quote(string(item))))
		case !knows(kinds[i], revision):
			texts = append(texts, textBlock(wire.Quote(instead(kinds[i], item))))
		default:
			others = append(others, item)
		}
	}
	return append(texts, others...), rich
}

// blocksWithin are the content blocks in what a tool has answered, which is a
// list of them or a whole result; rich tells whether one is more than text.
func blocksWithin(value []byte) (blocks [][]byte, rich bool) {
	if content, ok := wire.Get(value, "content"); ok {
		value = content
	}
	items, err := wire.Elements(value)
	if err != nil {
		items = [][]byte{value}
	}
	for _, item := range items {
		if kind := blockType(item); kind != "" {
			blocks = append(blocks, item)
			rich = rich || kind != "text"
		}
	}
	return blocks, rich
}

// WithoutData is the raw JSON of a value with a text that describes it in place of
// each content block that is more than text: of a block, a list of blocks, or a whole
// result. Other values are as they are. Models would read the data as text.
func WithoutData(value []byte) []byte {
	if _, rich := blocksWithin(value); !rich {
		return value
	}
	described := func(block []byte) []byte {
		if kind := blockType(block); kind != "" && kind != "text" {
			return wire.Quote(describe(kind, block))
		}
		return block
	}
	list := value
	content, whole := wire.Get(value, "content")
	if whole {
		list = content
	}
	items, err := wire.Elements(list)
	if err != nil {
		return described(value)
	}
	for i, item := range items {
		items[i] = described(item)
	}
	if !whole {
		return wire.Array(items)
	}
	if result, err := wire.Set(value, wire.Array(items), "content"); err == nil {
		return result
	}
	return value
}

// describeBlocks says what content blocks are, as a list of texts.
func describeBlocks(blocks [][]byte) []byte {
	items := make([][]byte, min(len(blocks), maxDescribed))
	for i := range items {
		items[i] = wire.Quote(describe(blockType(blocks[i]), blocks[i]))
	}
	if left := len(blocks) - len(items); left > 0 {
		items = append(items, wire.Quote(fmt.Sprintf("and %d more", left)))
	}
	return wire.Array(items)
}

// maxDescribed bounds how many content blocks are described, and maxAddress the
// address in such a description, in bytes.
const (
	maxDescribed = 20
	maxAddress   = 200
)

// describe says what a content block is.
func describe(kind string, raw []byte) string {
	text := func(path ...string) string { s, _ := wire.GetString(raw, path...); return clip(s, maxAddress) }
	size := func(path ...string) int { v, _ := wire.GetString(raw, path...); return len(v) }
	switch kind {
	case "text":
		return fmt.Sprintf("text, %d bytes", size("text"))
	case "resource":
		bytes := size("resource", "text")
		if bytes == 0 {
			bytes = size("resource", "blob") / 4 * 3
		}
		return fmt.Sprintf("resource %s, %d bytes", text("resource", "uri"), bytes)
	case "resource_link":
		return "resource_link " + text("uri")
	}
	return fmt.Sprintf("%s, %s, %d bytes", kind, text("mimeType"), size("data")/4*3)
}

// knows reports whether a client of the revision knows a type of content block.
func knows(kind string, revision protocol.Revision) bool {
	feature, ok := protocol.ContentFeature(kind)
	return revision.IsZero() || !ok || revision.Has(feature)
}

// blockType is the type of a content block, "" for what is none: a block has all
// members that its type must have, and one of text nothing that is unknown.
func blockType(raw []byte) string {
	if !wire.IsObject(raw) {
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
	return fmt.Sprintf("[%s: left out, the protocol revision of this client has no such content]", describe(kind, raw))
}

// textBlock is a content block; text is a JSON string.
func textBlock(text []byte) []byte {
	var block wire.Object
	block.NonEmpty("type", "text")
	block.Raw("text", text)
	return block.Bytes()
}
