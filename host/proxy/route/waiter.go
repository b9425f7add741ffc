package route

import (
	"strconv"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// waiter is a request that waits for an approval. The caller hears of the wait by progress, before
// the progress of the tool itself.
type waiter struct {
	progress func(params []byte) // of the caller; nil if the caller does not want progress
	// pause stops the clocks of the caller while a person decides; nil: no clocks.
	pause func() (goOn func())

	mu   sync.Mutex // held while sending, to keep the values in order
	last float64
	// passed reports that the progress of the tool itself has exceeded ours.
	passed bool
}

// progressStep is the increase of progress while a request waits, so small that the progress of the
// tool itself is an increase as a rule.
const progressStep = 1e-9

// tell returns the function of Asking.Progress.
func (w *waiter) tell() func(message string) {
	if w.progress == nil {
		return nil
	}
	return func(message string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last += progressStep
		var params wire.Object
		params.Raw("progress", number(w.last))
		params.Int("total", 1)
		params.Text("message", message)
		w.progress(params.Bytes())
	}
}

// after returns the function for the progress of the tool: values not larger than the last value
// for the caller are raised, as the protocol requires (MCP 2025-11-25, basic/utilities/progress).
func (w *waiter) after(progress func(params []byte)) func(params []byte) {
	if w.last == 0 || progress == nil {
		return progress
	}
	return func(params []byte) {
		w.mu.Lock()
		defer w.mu.Unlock()
		raw, _ := wire.Get(params, "progress")
		value, err := strconv.ParseFloat(string(raw), 64)
		if w.passed = w.passed || err == nil && value > w.last; !w.passed {
			w.last += progressStep
			if raised, err := wire.Set(params, number(w.last), "progress"); err == nil {
				params = raised
			}
		}
		progress(params)
	}
}

func number(value float64) []byte { return strconv.AppendFloat(nil, value, 'g', -1, 64) }
