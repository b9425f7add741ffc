package compose

import (
	"bytes"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// contentOf returns the content blocks of a script's result, text first; none for a plain value. A
// result has blocks if the result is a block, or a list of blocks and texts. In a list with a rich
// block, which is more than text, other values become text, too. Blocks are not changed, except
// that blocks of a type unknown to the revision are replaced by a text description.
func contentOf(result []byte, revision protocol.Revision) (blocks [][]byte, rich bool) {
	if !bytes.Contains(result, []byte(`"type":"`)) { // the form in which guests write the member
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
		case !supports(kinds[i], revision):
			texts = append(texts, textBlock(wire.Quote(replacement(kinds[i], item))))
		default:
			others = append(others, item)
		}
	}
	return append(texts, others...), rich
}

// Content returns the content blocks of a run's result, without the log, for clients with support
// for every kind of block.
func Content(result []byte) [][]byte {
	blocks, _ := contentOf(result, protocol.Revision{})
	if blocks != nil {
		return blocks
	}
	if result[0] != '"' {
		result = wire.Quote(string(result))
	}
	return [][]byte{textBlock(result)}
}

// blocksWithin returns the content blocks in the answer of a tool, which is a list of blocks or a
// whole result; rich reports whether a block is more than text.
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

// WithoutData returns the raw JSON of a block, a list of blocks, or a whole result, with each
// content block that is more than text replaced by a text description. Models would read the data
// as text. Other values are not changed.
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

// describeBlocks describes content blocks in a list of texts.
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

// maxDescribed limits how many content blocks are described, and maxAddress the bytes of
// the address in a description.
const (
	maxDescribed = 20
	maxAddress   = 200
)

// describe describes a content block.
func describe(kind string, raw []byte) string {
	text := func(path ...string) string {
		s, _ := wire.GetString(raw, path...)
		return display.ClipSize(s, maxAddress)
	}
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

// supports reports whether a client of the revision knows a type of content block.
func supports(kind string, revision protocol.Revision) bool {
	feature, ok := protocol.ContentFeature(kind)
	return revision.IsZero() || !ok || revision.Has(feature)
}

// blockType returns the type of a content block; "" if raw is no content block. A block has all
// required members of the type, and a text block has no unknown members.
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

// replacement returns the text for a block of a kind unknown to a client.
func replacement(kind string, raw []byte) string {
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
