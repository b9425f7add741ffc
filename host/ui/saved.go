package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/bundle"
)

// savedEntry is a saved tool in the list.
type savedEntry struct {
	Name         string     `json:"name"`
	Description  string     `json:"description"`
	Modified     time.Time  `json:"modified"`
	Runs         int64      `json:"runs"`
	LastExecuted *time.Time `json:"lastExecuted,omitempty"`
}

func newSavedEntry(d *tools.Definition) savedEntry {
	return savedEntry{d.Name, d.Description, d.Metadata.Modified, d.Metadata.ExecutionCount, moment(d.Metadata.LastExecuted)}
}

// saved answers with the list of saved tools.
func (h *Handler) saved(w http.ResponseWriter, r *http.Request) error {
	answer := struct {
		Tools    []savedEntry `json:"tools"`
		Problems []string     `json:"problems"` // unused files
	}{[]savedEntry{}, []string{}}
	for _, d := range h.opts.Store.List() {
		answer.Tools = append(answer.Tools, newSavedEntry(&d))
	}
	for _, p := range h.opts.Store.Problems() {
		answer.Problems = append(answer.Problems, p.Name+": "+p.Err.Error())
	}
	return write(w, answer)
}

// savedRevision changes with the list of saved tools.
func (h *Handler) savedRevision() string {
	var sum maphash.Hash
	sum.SetSeed(h.seed)
	for _, d := range h.opts.Store.List() {
		fmt.Fprintf(&sum, "%q %d %d ", d.Name, d.Metadata.Modified.UnixNano(), d.Metadata.ExecutionCount)
	}
	for _, p := range h.opts.Store.Problems() {
		fmt.Fprintf(&sum, "%q %q ", p.Name, p.Err)
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

// version is a version of a saved tool.
type version struct {
	Number  int        `json:"number"` // 0 is the current version
	Saved   *time.Time `json:"saved,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
	EndedBy string     `json:"endedBy,omitempty"`
	Changed []string   `json:"changed"` // differences from the version before; null if not known
	Problem string     `json:"problem,omitempty"`
}

// savedTool answers with a saved tool.
func (h *Handler) savedTool(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	d, err := h.opts.Store.Get(name)
	if err != nil {
		return err
	}
	versions, err := h.versions(name)
	if err != nil {
		return err
	}
	answer := struct {
		savedEntry
		Created      time.Time       `json:"created"`
		Code         string          `json:"code"`
		InputSchema  string          `json:"inputSchema"`
		OutputSchema string          `json:"outputSchema"`
		Limits       json.RawMessage `json:"limits"` // null: the limits of the configuration
		Hash         string          `json:"hash"`
		Versions     []version       `json:"versions"` // the newest first, including the current version
	}{
		savedEntry: newSavedEntry(&d), Created: d.Metadata.Created, Code: d.Code, InputSchema: indent(d.InputSchema),
		OutputSchema: indent(d.OutputSchema), Limits: d.Limits.JSON(), Hash: d.Hash(), Versions: []version{},
	}
	for i := range versions {
		v := version{Number: versions[i].Number, EndedBy: string(versions[i].EndedBy), Ended: moment(versions[i].Ended)}
		if problem := versions[i].Problem; problem != nil {
			v.Problem = problem.Error()
		} else {
			v.Saved = moment(versions[i].Definition.Metadata.Modified)
			if i+1 < len(versions) && versions[i+1].Problem == nil {
				v.Changed = append([]string{}, versions[i].Definition.Changes(&versions[i+1].Definition)...)
			}
		}
		answer.Versions = append(answer.Versions, v)
	}
	return write(w, answer)
}

// versions returns the current form of a tool and its versions, the newest first.
func (h *Handler) versions(name string) ([]tools.Version, error) {
	d, err := h.opts.Store.Get(name)
	if err != nil {
		return nil, err
	}
	earlier, err := h.opts.Store.History(name)
	if err != nil && !errors.Is(err, tools.ErrNotFound) {
		return nil, err
	}
	return append([]tools.Version{{Definition: d}}, earlier...), nil
}

// savedDiff answers with the difference between two versions, as a text.
func (h *Handler) savedDiff(w http.ResponseWriter, r *http.Request) error {
	versions, err := h.versions(r.PathValue("name"))
	if err != nil {
		return err
	}
	var texts [2][]byte
	var names [2]string
	for i, parameter := range []string{"from", "to"} {
		number, err := strconv.Atoi(r.URL.Query().Get(parameter))
		if err != nil {
			return badRequest("%s is not the number of a version", parameter)
		}
		if names[i] = "version " + strconv.Itoa(number); number == 0 {
			names[i] = "now"
		}
		if texts[i], err = review(versions, number); err != nil {
			return err
		}
	}
	text := diff.Diff(names[0], texts[0], names[1], texts[1])
	_, text, _ = bytes.Cut(text, []byte("\n")) // the command line of a diff
	return write(w, map[string]string{"diff": string(text)})
}

// review returns a version as a text for people.
func review(versions []tools.Version, number int) ([]byte, error) {
	for i := range versions {
		if versions[i].Number != number {
			continue
		}
		if versions[i].Problem != nil {
			return nil, badRequest("version %d cannot be read", number)
		}
		return bundle.Review(&versions[i].Definition)
	}
	return nil, tools.ErrNoVersion
}

// savedCall is a tool named by the code of a saved tool.
type savedCall struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Line   int    `json:"line"` // of the first mention
	Times  int    `json:"times"`
	// Problem is why a call of the tool fails; "" if the call is allowed.
	Problem string `json:"problem,omitempty"`
	Hints   hints  `json:"hints"`
}

// savedCalls answers with the tools named by the code of a saved tool, and whether the code may
// call them.
func (h *Handler) savedCalls(w http.ResponseWriter, r *http.Request) error {
	d, err := h.opts.Store.Get(r.PathValue("name"))
	if err != nil {
		return err
	}
	ctx, end := h.untilEnd(r)
	defer end()
	lint, err := h.opts.Proxy.Inspect(ctx, d.Name, d.Code)
	if err != nil {
		return err
	}
	calls := []savedCall{}
	at := map[[2]string]int{}
	for _, named := range lint.Calls {
		c := h.savedCall(named)
		key := [2]string{c.Server, c.Tool}
		i, again := at[key]
		if !again {
			at[key], calls = len(calls), append(calls, c)
			i = len(calls) - 1
		}
		calls[i].Times++
		calls[i].Line = min(calls[i].Line, c.Line)
	}
	warnings := []string{}
	for _, w := range lint.Warnings {
		warnings = append(warnings, "line "+strconv.Itoa(w.Position.Line)+": "+w.Message)
	}
	return write(w, map[string]any{"calls": calls, "warnings": warnings})
}

func (h *Handler) savedCall(named abi.NamedTool) savedCall {
	c := savedCall{Server: named.Server, Tool: named.Tool, Line: named.Position.Line}
	if named.Server == abi.Composites {
		if _, err := h.opts.Store.Get(named.Tool); err != nil {
			c.Problem = err.Error()
		}
		return c
	}
	server, tool, err := h.opts.Catalog.Resolve(named.Server, named.Tool, named.Exact)
	if err != nil {
		c.Problem = err.Error()
		return c
	}
	c.Server, c.Tool, c.Hints = server, tool, hintsOf(h.opts.Catalog.Definition(server, tool))
	return c
}
