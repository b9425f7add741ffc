package sandbox

import (
	"bytes"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/tape"
)

// answers has the answers to the last batch of calls.
type answers struct {
	pending []pendingAnswer
	// tape is the tape of answer number taped, if made and not fetched yet.
	tape  []byte
	taped uint32
}

// pendingAnswer is an answer that the guest can fetch once.
type pendingAnswer struct {
	code    abi.Code
	bytes   []byte // JSON
	fetched bool
}

// set stores the answers to a batch and returns their number. An answer that is too large, alone or
// together with earlier answers, becomes an error.
func (a *answers) set(i *instance, calls []abi.ToolCall, made []abi.Answer) uint32 {
	a.pending = make([]pendingAnswer, len(made))
	var total uint64
	for n, answer := range made {
		p := pendingAnswer{code: abi.OK, bytes: answer.Value}
		if answer.Err != nil {
			p = i.errorAnswer(answer.Err)
		} else if len(answer.Value) == 0 {
			i.end(&hostError{abi.FuncCallTools, fmt.Sprintf("neither value nor error from %s.%s", calls[n].Server, calls[n].Tool)})
		}
		total += uint64(len(p.bytes))
		if len(p.bytes) > i.limits.Answer || total > i.limits.Memory {
			message := fmt.Sprintf("answer of %s.%s: %s, more than %s", calls[n].Server, calls[n].Tool,
				formatBytes(uint64(len(p.bytes))), formatBytes(uint64(i.limits.Answer)))
			if len(p.bytes) <= i.limits.Answer {
				message = fmt.Sprintf("answers of one batch: more than the %s of memory of the run", formatBytes(i.limits.Memory))
			}
			i.recordLimit(LimitAnswer, i.limits.Answer, message)
			total -= uint64(len(p.bytes))
			p = i.errorAnswer(&abi.CallError{Type: abi.ErrResource, Server: calls[n].Server, Tool: calls[n].Tool, Message: message})
		}
		a.pending[n] = p
	}
	return uint32(len(made))
}

// fetch writes an answer into the guest's buffer, if the buffer is large enough, and drops the
// answer.
func (a *answers) fetch(i *instance, index, ptr, capacity uint32) uint64 {
	if uint64(index) >= uint64(len(a.pending)) || a.pending[index].fetched {
		i.view(abi.FuncAnswerRead, ptr, capacity)
		return abi.Pack(abi.Invalid, 0)
	}
	p := &a.pending[index]
	n := uint32(len(p.bytes))
	if i.copyOut(abi.FuncAnswerRead, p.bytes, ptr, capacity) {
		i.fuel.charge(len(p.bytes) * copyCost)
		p.bytes, p.fetched = nil, true
	}
	return abi.Pack(p.code, n)
}

// fetchTape is fetch with a tape in place of JSON. An answer without a tape is not fetched.
func (a *answers) fetchTape(i *instance, index, ptr, capacity uint32) uint64 {
	if uint64(index) < uint64(len(a.pending)) && a.pending[index].code != abi.OK {
		return a.fetch(i, index, ptr, capacity)
	}
	i.view(abi.FuncAnswerTape, ptr, capacity)
	if uint64(index) >= uint64(len(a.pending)) || a.pending[index].fetched {
		return abi.Pack(abi.Invalid, 0)
	}
	p := &a.pending[index]
	if a.tape == nil || a.taped != index {
		if len(p.bytes) > tape.MaxText || i.withheldIn(p.bytes) {
			return abi.Pack(abi.Invalid, 0)
		}
		i.fuel.charge(len(p.bytes) * tapeCost)
		made, ok := tape.Encode(p.bytes)
		if !ok {
			return abi.Pack(abi.Invalid, 0)
		}
		a.tape, a.taped = made, index
	}
	n := uint32(len(a.tape))
	if i.copyOut(abi.FuncAnswerTape, a.tape, ptr, capacity) {
		i.fuel.charge(len(a.tape) * copyCost)
		a.tape, p.bytes, p.fetched = nil, nil, true
	}
	return abi.Pack(p.code, n)
}

// withheldIn reports whether an answer has a placeholder for a withheld answer. A tape would give
// the guest the placeholder's text.
func (i *instance) withheldIn(answer []byte) bool {
	marker := i.script.Withheld
	if marker == "" {
		return false
	}
	i.fuel.charge(len(answer) * copyCost)
	return bytes.Contains(answer, []byte(marker))
}

func (i *instance) errorAnswer(e *abi.CallError) pendingAnswer {
	b, err := encode(e)
	if err != nil {
		i.end(&hostError{abi.FuncCallTools, fmt.Sprintf("error of %s.%s: %v", e.Server, e.Tool, err)})
	}
	return pendingAnswer{code: abi.ToolError, bytes: b}
}
