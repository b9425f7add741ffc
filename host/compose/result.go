package compose

import (
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// ReceiptKey is the member of a result's _meta that holds the run's receipt:
// {run, memory, calls, fuel}, memory being the peak in bytes. Its prefix
// follows the naming rule of MCP 2025-11-25, basic, section _meta.
const ReceiptKey = "io.github.mcp-metatool/receipt"

// runResult builds the CallToolResult of a run that has ended: with f when it
// failed, else with its result. Everything about the run comes from its record.
func runResult(rec journal.Record, f *Failure) []byte {
	structured := object{}
	var text []byte
	if f != nil {
		structured.raw("error", f.body())
		text = wire.Quote(f.Text())
	} else {
		structured.raw("result", rec.Outcome.Result)
		if text = rec.Outcome.Result; text[0] != '"' {
			text = wire.Quote(string(text))
		}
	}
	structured.raw("logs", logList(rec.Logs))
	structured.raw("executionTime", milliseconds(rec.Duration))
	structured.raw("toolCalls", callList(rec.Calls))

	receipt := object{}
	receipt.text("run", rec.ID)
	receipt.count("memory", rec.Outcome.Memory)
	receipt.raw("calls", strconv.AppendInt(nil, int64(len(rec.Calls)), 10))
	receipt.count("fuel", rec.Outcome.Fuel)
	meta := object{}
	meta.raw(ReceiptKey, receipt.bytes())
	return toolResult(text, structured.bytes(), f != nil, meta.bytes())
}

// TextResult is the CallToolResult of a successful call outside any run: a text
// for readers, and structured, a raw JSON object, for programs.
func TextResult(text string, structured []byte) []byte {
	return toolResult(wire.Quote(text), structured, false, nil)
}

// toolResult is a CallToolResult with one text block; text is a JSON string.
func toolResult(text, structured []byte, isError bool, meta []byte) []byte {
	block := object{}
	block.text("type", "text")
	block.raw("text", text)
	result := object{}
	if meta != nil {
		result.raw("_meta", meta)
	}
	result.raw("content", array([][]byte{block.bytes()}))
	result.raw("structuredContent", structured)
	result.raw("isError", strconv.AppendBool(nil, isError))
	return result.bytes()
}

func milliseconds(d time.Duration) []byte {
	return strconv.AppendFloat(nil, float64(d.Microseconds())/1000, 'f', -1, 64)
}

func logList(logs []journal.Entry) []byte {
	items := make([][]byte, len(logs))
	for i, e := range logs {
		items[i] = wire.Quote(e.Text)
	}
	return array(items)
}

func callList(calls []journal.CallRecord) []byte {
	var in inliner
	items := make([][]byte, len(calls))
	for i, c := range calls {
		o := object{}
		o.raw("server", wire.Quote(c.Server))
		o.raw("tool", wire.Quote(c.Tool))
		o.raw("params", in.value(c.Arguments))
		switch e := c.Answer.Err; {
		case !c.Done:
			o.raw("error", callError(abi.ErrCancelled, "no answer before the run ended"))
		case e != nil:
			o.raw("error", callError(e.Type, e.Message))
		default:
			o.raw("result", in.value(c.Answer.Value))
		}
		items[i] = o.bytes()
	}
	return array(items)
}

// maxListedMessage bounds the message of a failed call in the list of calls,
// in bytes.
const maxListedMessage = 1 << 10

func callError(class abi.ErrorType, message string) []byte {
	o := object{}
	o.text("type", string(class))
	o.raw("message", wire.Quote(clip(message, maxListedMessage)))
	return o.bytes()
}
