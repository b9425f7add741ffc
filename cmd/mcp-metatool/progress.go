package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// barSteps is the number of steps of a bar.
const barSteps = 1000

// progressView shows the progress of one call: as a bar on a terminal (a spinner while
// the total is unknown), elsewhere as lines. It is safe for concurrent use.
type progressView struct {
	mu  sync.Mutex // held while writing
	w   io.Writer
	bar *progressbar.ProgressBar // nil: lines

	// expect is the total for notifications without one; 0: unknown.
	expect float64
	indent string    // in front of lines
	known  bool      // the bar has a total
	tenth  int       // of the total, shown in the last line
	shown  time.Time // when the last line was written
}

// newProgressView makes a progressView and shows its initial state.
func newProgressView(w io.Writer, terminal bool, what string, options ...progressbar.Option) *progressView {
	p := &progressView{w: w, tenth: -1}
	if !terminal {
		return p
	}
	options = append([]progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetDescription(describe(what)),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	}, options...)
	p.bar = progressbar.NewOptions64(-1, options...)
	return p
}

func describe(message string) string { return display.Line(message, 44) }

// update shows the params of a progress notification.
func (p *progressView) update(params []byte) {
	value, ok := float(params, "progress")
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	total, ok := float(params, "total")
	if !ok {
		total = p.expect
	}
	message, _ := wire.GetString(params, "message")
	part := -1.0 // of the total
	if total > 0 {
		part = min(max(value/total, 0), 1)
	}
	if p.bar == nil {
		p.line(value, part, message)
		return
	}
	if part >= 0 && !p.known {
		p.known = true
		p.bar.ChangeMax64(barSteps)
	}
	p.bar.Describe(describe(message))
	if p.known && part >= 0 {
		_ = p.bar.Set64(int64(part * barSteps)) // an error of the terminal does not matter
	}
}

// line writes a line for every tenth of the total, or, without a total, for at most one
// notification a second.
func (p *progressView) line(value, part float64, message string) {
	if part < 0 {
		if time.Since(p.shown) >= time.Second {
			p.shown = time.Now()
			fmt.Fprintf(p.w, "%sprogress %.4g %s\n", p.indent, value, display.Line(message, 100))
		}
		return
	}
	if tenth := int(part * 10); tenth > p.tenth {
		p.tenth = tenth
		fmt.Fprintf(p.w, "%sprogress %3.0f%% %s\n", p.indent, math.Floor(part*100), display.Line(message, 100))
	}
}

// plain removes the bar, so that the user can be asked something. Progress is shown as lines
// from then on.
func (p *progressView) plain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}

// end removes the bar.
func (p *progressView) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

func float(params []byte, name string) (float64, bool) {
	raw, ok := wire.Get(params, name)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}
