package expect

import (
	"encoding/json"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Progress requires at least atLeast progress notifications of a call, given as raw params in
// order. The progress must increase (MCP 2025-11-25, basic, utilities, progress) and must not
// exceed the total, the total must not decrease, and all must have the same token.
func Progress(atLeast int, params [][]byte) *Mismatch {
	if len(params) < atLeast {
		return &Mismatch{
			Message: "too few progress notifications",
			Want:    fmt.Sprintf("at least %d", atLeast), Got: fmt.Sprint(len(params)),
		}
	}
	var last advance
	for i, raw := range params {
		now, m := readAdvance(raw)
		if m == nil && i > 0 {
			m = now.follows(last)
		}
		if m != nil {
			m.Path = fmt.Sprintf("$[%d]%s", i, m.Path)
			return m
		}
		last = now
	}
	return nil
}

// advance is a progress notification; total is "" if absent.
type advance struct {
	token           any
	progress, total string
}

func readAdvance(raw []byte) (advance, *Mismatch) {
	v, err := jsonvalue.Decode(raw)
	params, ok := v.(map[string]any)
	if err != nil || !ok {
		return advance{}, &Mismatch{Message: "the params of a progress notification are not a JSON object", Got: display.ClipSize(string(raw), maxShown)}
	}
	var a advance
	progress, ok := params["progress"].(json.Number)
	if !ok {
		return a, &Mismatch{Path: ".progress", Message: "progress is not a number", Got: display.ClipSize(string(raw), maxShown)}
	}
	a.token, a.progress = params["progressToken"], progress.String()
	if total, has := params["total"]; has {
		n, ok := total.(json.Number)
		if !ok {
			return a, &Mismatch{Path: ".total", Message: "total is not a number", Got: Show(total)}
		}
		if a.total = n.String(); compareNumbers(a.progress, a.total) > 0 {
			return a, &Mismatch{Path: ".progress", Message: "progress exceeds the total", Want: "at most " + display.ClipSize(a.total, maxName), Got: display.ClipSize(a.progress, maxName)}
		}
	}
	return a, nil
}

// follows requires that a is an advance over last.
func (a advance) follows(last advance) *Mismatch {
	switch {
	case len(Differences(last.token, a.token, false)) > 0:
		return &Mismatch{Path: ".progressToken", Message: "the token is a different one", Want: Show(last.token), Got: Show(a.token)}
	case compareNumbers(a.progress, last.progress) <= 0:
		return &Mismatch{Path: ".progress", Message: "progress does not increase", Want: "more than " + display.ClipSize(last.progress, maxName), Got: display.ClipSize(a.progress, maxName)}
	case last.total != "" && a.total != "" && compareNumbers(a.total, last.total) < 0:
		return &Mismatch{Path: ".total", Message: "the total decreases", Want: "at least " + display.ClipSize(last.total, maxName), Got: display.ClipSize(a.total, maxName)}
	}
	return nil
}
