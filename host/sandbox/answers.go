package sandbox

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// answers are the answers to the last batch of calls that were not fetched yet.
type answers struct{ parked []parked }

// parked is an answer that waits to be fetched once.
type parked struct {
	code    abi.Code
	bytes   []byte // JSON
	fetched bool
}

// park keeps the answers to a batch and returns how many there are. An answer that
// is too large, alone or together with those before it, becomes an error.
func (a *answers) park(i *instance, calls []abi.ToolCall, made []abi.Answer) uint32 {
	a.parked = make([]parked, len(made))
	var total uint64
	for n, answer := range made {
		p := parked{code: abi.OK, bytes: answer.Value}
		if answer.Err != nil {
			p = i.parkError(answer.Err)
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
			p = i.parkError(&abi.CallError{Type: abi.ErrResource, Server: calls[n].Server, Tool: calls[n].Tool, Message: message})
		}
		a.parked[n] = p
	}
	return uint32(len(made))
}

// fetch writes one answer into the guest's buffer, if it fits, and drops it.
func (a *answers) fetch(i *instance, index, ptr, capacity uint32) uint64 {
	if uint64(index) >= uint64(len(a.parked)) || a.parked[index].fetched {
		i.view(abi.FuncAnswerRead, ptr, capacity)
		return abi.Pack(abi.Invalid, 0)
	}
	p := &a.parked[index]
	n := uint32(len(p.bytes))
	if i.give(abi.FuncAnswerRead, p.bytes, ptr, capacity) {
		i.fuel.charge(len(p.bytes) * copyCost)
		p.bytes, p.fetched = nil, true
	}
	return abi.Pack(p.code, n)
}

func (i *instance) parkError(e *abi.CallError) parked {
	b, err := encode(e)
	if err != nil {
		i.end(&hostError{abi.FuncCallTools, fmt.Sprintf("error of %s.%s: %v", e.Server, e.Tool, err)})
	}
	return parked{code: abi.ToolError, bytes: b}
}
