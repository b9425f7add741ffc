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

// An audience is who a result is for.
type audience struct {
	revision string // of the protocol; "": all are known
	whole    bool   // wants the result whole, whatever its size
}

// runResult builds the CallToolResult of a run that has ended: with f when it
// failed, else with its result. Everything about the run comes from its record.
func runResult(rec journal.Record, f *Failure, to audience) []byte {
	structured := object{}
	var content [][]byte
	if f != nil {
		structured.raw("error", f.body())
		content = [][]byte{textBlock(wire.Quote(f.Text()))}
	} else if content = contentOf(rec.Outcome.Result, to.revision); content != nil {
		shown := rec.Outcome.Result
		if !to.whole { // it is in the content already
			shown = new(inliner).value(shown)
		}
		structured.raw("result", shown)
	} else {
		structured.raw("result", rec.Outcome.Result)
		text := rec.Outcome.Result
		if text[0] != '"' {
			text = wire.Quote(string(text))
		}
		content = [][]byte{textBlock(text)}
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
	return toolResult(content, structured.bytes(), f != nil, meta.bytes())
}

// TextResult is the CallToolResult of a successful call outside any run: a text
// for readers, and structured, a raw JSON object, for programs.
func TextResult(text string, structured []byte) []byte {
	return toolResult([][]byte{textBlock(wire.Quote(text))}, structured, false, nil)
}

// toolResult is a CallToolResult of content blocks.
func toolResult(content [][]byte, structured []byte, isError bool, meta []byte) []byte {
	result := object{}
	if meta != nil {
		result.raw("_meta", meta)
	}
	result.raw("content", array(content))
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
	return new(inliner).calls(calls)
}

// calls lists calls, and within those of composite tools theirs.
func (in *inliner) calls(calls []journal.CallRecord) []byte {
	items := make([][]byte, len(calls))
	for i, c := range calls {
		o := object{}
		o.raw("server", wire.Quote(c.Server))
		o.raw("tool", wire.Quote(c.Tool))
		o.raw("params", in.value(c.Asked.Arguments))
		switch e := c.Answer.Err; {
		case !c.Done:
			o.raw("error", callError(abi.ErrCancelled, "no answer before the run ended"))
		case e != nil:
			o.raw("error", callError(e.Type, e.Message))
		default:
			o.raw("result", in.value(c.Answer.Value))
		}
		if c.Undo {
			o.raw("undo", []byte("true"))
		}
		if c.Answer.Run != nil {
			o.raw("toolCalls", in.calls(c.Answer.Run.Calls))
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
