package compose

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// ReceiptKey is the member of a result's _meta that holds the run's receipt:
// {run, memory, calls, fuel}, memory being the peak in bytes. Its prefix
// follows the naming rule of MCP 2025-11-25, basic, section _meta.
const ReceiptKey = "io.github.mcp-metatool/receipt"

// An audience is who a result is for.
type audience struct {
	revision string // of the protocol; "": all are known
	detail   Detail // of calls
	// structured wants structuredContent also where the result is content blocks.
	structured bool
	// whole wants everything in structuredContent, for who is no model: all calls,
	// the log, and the result whatever it is.
	whole bool
}

// runResult builds the CallToolResult of a run that has ended: with f when it
// failed, else with its result. Everything about the run comes from its record.
//
// Hosts show the model structuredContent when there is one, and of errors perhaps
// the content alone. So either says all that matters, and content blocks come
// without structuredContent if they may: they would not be seen beside it.
func runResult(rec journal.Record, f *Failure, to audience) []byte {
	structured := object{}
	content, rich := [][]byte(nil), false
	switch {
	case f != nil:
		structured.raw("error", f.body())
		text := f.Text()
		if !to.whole {
			text += logText("\nlog:", rec.Logs)
		}
		content = [][]byte{textBlock(wire.Quote(text))}
	default:
		result := rec.Outcome.Result
		content, rich = contentOf(result, to.revision)
		switch {
		case rich && !to.whole:
			structured.raw("content", describeBlocks(content))
		case content != nil:
			structured.raw("result", result)
		default:
			structured.raw("result", result)
			if result[0] != '"' {
				result = wire.Quote(string(result))
			}
			content, to.structured = [][]byte{textBlock(result)}, true
		}
		if !to.structured && !to.whole {
			if text := logText("log:", rec.Logs); text != "" {
				content = append(content, textBlock(wire.Quote(text)))
			}
			return toolResult(content, nil, false, receipt(&rec))
		}
	}
	structured.raw("logs", logList(rec.Logs, to.whole))
	structured.raw("executionTime", milliseconds(rec.Duration))
	newCallList(to.detail).write(&structured, rec.Calls)
	return toolResult(content, structured.bytes(), f != nil, receipt(&rec))
}

// receipt is the _meta of a run's result.
func receipt(rec *journal.Record) []byte {
	r := object{}
	r.text("run", rec.ID)
	r.count("memory", rec.Outcome.Memory)
	r.raw("calls", strconv.AppendInt(nil, int64(len(rec.Calls)), 10))
	r.count("fuel", rec.Outcome.Fuel)
	meta := object{}
	meta.raw(ReceiptKey, r.bytes())
	return meta.bytes()
}

// TextResult is the CallToolResult of a successful call outside any run: a text
// for readers, and structured, a raw JSON object, for programs.
func TextResult(text string, structured []byte) []byte {
	return toolResult([][]byte{textBlock(wire.Quote(text))}, structured, false, nil)
}

// toolResult is a CallToolResult of content blocks; structured and meta may be
// nil.
func toolResult(content [][]byte, structured []byte, isError bool, meta []byte) []byte {
	result := object{}
	if meta != nil {
		result.raw("_meta", meta)
	}
	result.raw("content", array(content))
	if structured != nil {
		result.raw("structuredContent", structured)
	}
	result.raw("isError", strconv.AppendBool(nil, isError))
	return result.bytes()
}

func milliseconds(d time.Duration) []byte {
	return strconv.AppendFloat(nil, float64(d.Microseconds())/1000, 'f', -1, 64)
}

func logList(logs []journal.Entry, whole bool) []byte {
	most := maxShownLog
	if whole {
		most = math.MaxInt
	}
	shown := shownLog(logs, most)
	items := make([][]byte, len(shown))
	for i, text := range shown {
		items[i] = wire.Quote(text)
	}
	return array(items)
}

// logText is the log under a title, for readers; "" if there is none.
func logText(title string, logs []journal.Entry) string {
	if len(logs) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(title)
	for _, text := range shownLog(logs, maxLogText) {
		b.WriteString("\n  " + strings.ReplaceAll(text, "\n", "\n  "))
	}
	return b.String()
}
