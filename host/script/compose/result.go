package compose

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// ReceiptKey is the member of a result's _meta with the run's receipt: {run, memory, calls, fuel,
// head, seal}. The figures include the saved tools called by the run, directly or not: memory is
// the most bytes that their sandboxes had at the same time, and calls includes the calls of saved
// tools and the calls inside them; head is the digest of the run's last event in the journal, and
// seal the signature about head (docs/journal.md). The prefix follows the naming rule of MCP
// 2025-11-25, basic, section _meta.
const ReceiptKey = "io.github.mcp-metatool/receipt"

// An audience describes the readers of a result.
type audience struct {
	revision protocol.Revision // of the client; zero: the client supports everything
	detail   Detail            // of calls
	// structured requests structuredContent even if the result is content blocks.
	structured bool
	// whole requests everything in structuredContent, for readers other than models: all calls, the
	// log, and any result.
	whole bool
	// memory is the memory of the whole tree of runs; 0: unknown.
	memory uint64
	labels labelled
	// script reports that the result is for a script, and must be the same in each run.
	script bool
}

// runResult builds the CallToolResult of an ended run: with f if the run failed, otherwise with the
// result. Everything about the run comes from the record.
//
// Hosts show the model structuredContent if present, and for errors perhaps only the content. So
// each of the two has everything important. Content blocks come without structuredContent if
// possible, because hosts would not show both.
func runResult(rec journal.Record, f *Failure, to audience) []byte {
	var structured wire.Object
	content, rich := [][]byte(nil), false
	switch {
	case f != nil:
		structured.Raw("error", f.body())
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
			structured.Raw("content", describeBlocks(content))
		case content != nil:
			structured.Raw("result", result)
		default:
			structured.Raw("result", result)
			if result[0] != '"' {
				result = wire.Quote(string(result))
			}
			content, to.structured = [][]byte{textBlock(result)}, true
		}
		if !to.structured && !to.whole {
			if text := logText("log:", rec.Logs); text != "" {
				content = append(content, textBlock(wire.Quote(text)))
			}
			return toolResult(content, nil, false, receipt(&rec, to))
		}
	}
	structured.Raw("logs", logList(rec.Logs, to.whole))
	if !to.labels.cut {
		structured.Raw("executionTime", milliseconds(rec.Duration))
		newCallList(to.detail).write(&structured, rec.Calls)
	}
	return toolResult(content, structured.Bytes(), f != nil, receipt(&rec, to))
}

// receipt returns the _meta of a run's result.
func receipt(rec *journal.Record, to audience) []byte {
	used := usageOf(rec)
	if !to.script { // the root of a tree; the root's record has the fuel of all runs
		used.fuel, used.memory = rec.Outcome.Fuel, max(rec.Outcome.Memory, to.memory)
	}
	var r wire.Object
	r.NonEmpty("run", rec.ID)
	if !to.labels.cut { // a digest of uncompared figures reveals something about the figures, too
		r.NonZero("memory", used.memory)
		r.Raw("calls", strconv.AppendUint(nil, used.calls, 10))
		r.NonZero("fuel", used.fuel)
	}
	if !to.script && !to.labels.cut { // results for scripts do not depend on where and when they run
		r.NonEmpty("head", rec.Head)
		if rec.Seal != nil {
			r.Raw("seal", rec.Seal.JSON())
		}
	}
	var meta wire.Object
	meta.Raw(ReceiptKey, r.Bytes())
	if to.labels.known {
		meta.Raw(flow.MetaKey, to.labels.carried.Meta())
	}
	return meta.Bytes()
}

// usage is the usage of a run and of the runs below.
type usage struct{ memory, calls, fuel uint64 }

// usageOf returns the usage from a record. The record does not show which runs overlapped, so the
// memory is for a tree that makes the calls one after the other.
func usageOf(rec *journal.Record) usage {
	all, most := usage{rec.Outcome.Memory, uint64(len(rec.Calls)), rec.Outcome.Fuel}, uint64(0)
	for i := range rec.Calls {
		if of := rec.Calls[i].Answer.Run; of != nil {
			u := usageOf(of)
			all.calls, all.fuel, most = all.calls+u.calls, all.fuel+u.fuel, max(most, u.memory)
		}
	}
	all.memory += most
	return all
}

// TextResult returns the CallToolResult of a successful call without a run: a text for
// readers, and structured, a raw JSON object, for programs.
func TextResult(text string, structured []byte) []byte {
	return toolResult([][]byte{textBlock(wire.Quote(text))}, structured, false, nil)
}

// OutcomeResult is TextResult for a call that may have failed.
func OutcomeResult(text string, structured []byte, failed bool) []byte {
	return toolResult([][]byte{textBlock(wire.Quote(text))}, structured, failed, nil)
}

// toolResult returns a CallToolResult of content blocks; structured and meta may be nil.
func toolResult(content [][]byte, structured []byte, isError bool, meta []byte) []byte {
	var result wire.Object
	if meta != nil {
		result.Raw("_meta", meta)
	}
	result.Raw("content", wire.Array(content))
	if structured != nil {
		result.Raw("structuredContent", structured)
	}
	result.Raw("isError", strconv.AppendBool(nil, isError))
	return result.Bytes()
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
	return wire.Array(items)
}

// logText returns the log with a title, for readers; "" for an empty log.
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
