package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// jsonVersion is the version of the document's format. Members can be added without a new
// version.
const jsonVersion = 1

// jsonWriter writes one JSON document, one file of checks at a time:
//
//	{"version": 1,
//	 "files": [{
//	   "path": "smoke.toml", "error": "", "duration": 0.33,
//	   "results": [{
//	     "name": "adds", "line": 5, "column": 1, "duration": 0.012,
//	     "phase": "" | "setup" | "teardown", "tags": ["slow"], "attempts": 1,
//	     "row": 0, "values": {"city": "Chicago"},
//	     "status": "passed" | "failed" | "skipped" | "broken",
//	     "problems": [{"what": "expect.result", "path": "$.open", "message": "other value",
//	                   "want": "3", "got": "4", "diff": "", "line": 17, "column": 1}],
//	     "logs": ["text"], "output": "text", "fuel": 0, "memory": 0, "calls": 0}],
//	   "sha256": "9f86…", "staleSnapshots": ["smoke.snapshots/old.json"],
//	   "servers": [{"name": "github", "product": "github-mcp-server", "version": "1.0",
//	                "protocol": "2025-11-25", "error": "", "tools": 40}]}],
//	 "summary": {"checks": 1, "passed": 1, "failed": 0, "skipped": 0, "broken": 0,
//	             "files": 1, "badFiles": 0, "duration": 0.34, "exitCode": 0,
//	             "coverage": {"called": 3, "tools": 4, "percent": 75, "required": 0, "servers": [
//	               {"name": "github", "error": "", "called": 3, "tools": 4, "uncalled": ["x"]}]}}}
//
// All members are always present, except coverage if not requested. Durations are in seconds, memory
// in bytes; lines and columns count from 1, and 0 means unknown. Invalid UTF-8 becomes U+FFFD.
type jsonWriter struct {
	out   *sink
	files int
}

type jsonFile struct {
	Path     string       `json:"path"`
	Error    string       `json:"error"`
	Duration float64      `json:"duration"`
	Results  []jsonResult `json:"results"`
	SHA256   string       `json:"sha256"`
	Stale    []string     `json:"staleSnapshots"`
	Servers  []jsonServer `json:"servers"`
}

type jsonServer struct {
	Name     string `json:"name"`
	Product  string `json:"product"`
	Version  string `json:"version"`
	Protocol string `json:"protocol"`
	Error    string `json:"error"`
	Tools    int    `json:"tools"`
}

type jsonResult struct {
	Name     string   `json:"name"`
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Status   Status   `json:"status"`
	Duration float64  `json:"duration"`
	Phase    string   `json:"phase"`
	Tags     []string `json:"tags"`
	Attempts int      `json:"attempts"`
	// Row is 0 for checks without rows. Values other than texts are JSON in a text.
	Row      int               `json:"row"`
	Values   map[string]string `json:"values"`
	Problems []jsonProblem     `json:"problems"`
	Logs     []string          `json:"logs"`
	Output   string            `json:"output"`
	Fuel     uint64            `json:"fuel"`
	Memory   uint64            `json:"memory"`
	Calls    uint64            `json:"calls"`
}

type jsonProblem struct {
	Expectation string `json:"what"`
	Path        string `json:"path"`
	Message     string `json:"message"`
	Want        string `json:"want"`
	Got         string `json:"got"`
	Diff        string `json:"diff"`
	Line        int    `json:"line"`
	Column      int    `json:"column"`
}

type jsonSummary struct {
	Checks   int           `json:"checks"`
	Passed   int           `json:"passed"`
	Failed   int           `json:"failed"`
	Skipped  int           `json:"skipped"`
	Broken   int           `json:"broken"`
	Files    int           `json:"files"`
	BadFiles int           `json:"badFiles"`
	Duration float64       `json:"duration"`
	ExitCode int           `json:"exitCode"`
	Coverage *jsonCoverage `json:"coverage,omitempty"`
}

type jsonCoverage struct {
	Called   int           `json:"called"`
	Tools    int           `json:"tools"`
	Percent  float64       `json:"percent"`
	Required float64       `json:"required"`
	Servers  []jsonCovered `json:"servers"`
}

type jsonCovered struct {
	Name     string   `json:"name"`
	Error    string   `json:"error"`
	Called   int      `json:"called"`
	Tools    int      `json:"tools"`
	Uncalled []string `json:"uncalled"`
}

func (j *jsonWriter) Result(Result) error { return j.out.err }

func (j *jsonWriter) File(f File) error {
	if j.files++; j.files == 1 {
		j.begin()
	} else {
		j.out.WriteString(",")
	}
	file := jsonFile{
		Path: f.Path, Duration: rounded(f.Duration), Results: []jsonResult{}, SHA256: f.Digest,
		Stale: append([]string{}, f.Stale...), Servers: []jsonServer{},
	}
	for _, s := range f.Servers {
		file.Servers = append(file.Servers, jsonServer{s.Name, s.Product, s.Version, s.Protocol, s.Err, len(s.Tools)})
	}
	if f.Err != nil {
		file.Error = f.Err.Error()
	}
	for _, r := range f.Results {
		file.Results = append(file.Results, jsonResultOf(r))
	}
	j.out.WriteString("\n    ")
	j.value(file, "    ")
	return j.out.flush()
}

func (j *jsonWriter) begin() {
	fmt.Fprintf(j.out, "{\n  \"version\": %d,\n  \"files\": [", jsonVersion)
}

func jsonResultOf(r Result) jsonResult {
	result := jsonResult{
		Name: r.Name, Line: r.Line, Column: r.Column, Status: r.Status, Duration: rounded(r.Duration),
		Phase: r.Phase, Tags: append([]string{}, r.Tags...), Attempts: r.Attempts,
		Row: r.Row.Number, Values: map[string]string{},
		Problems: []jsonProblem{}, Logs: append([]string{}, r.Logs...), Output: r.Output,
	}
	if u := r.Usage; u != nil {
		result.Fuel, result.Memory, result.Calls = u.Fuel, u.Memory, u.Calls
	}
	for _, c := range r.Row.Cells {
		result.Values[c.Name] = c.Value
	}
	for _, p := range r.Problems {
		result.Problems = append(result.Problems, jsonProblem(p))
	}
	return result
}

func (j *jsonWriter) Close(s Summary) error {
	if j.files == 0 {
		j.begin()
	} else {
		j.out.WriteString("\n  ")
	}
	j.out.WriteString("],\n  \"summary\": ")
	j.value(jsonSummary{
		Checks: s.Checks(), Passed: s.Passed, Failed: s.Failed, Skipped: s.Skipped, Broken: s.Broken,
		Files: s.Files, BadFiles: s.BadFiles, Duration: rounded(s.Duration), ExitCode: s.ExitCode(),
		Coverage: jsonCoverageOf(s.Coverage),
	}, "  ")
	j.out.WriteString("\n}\n")
	return j.out.flush()
}

// jsonCoverageOf returns nil for nil.
func jsonCoverageOf(c *Coverage) *jsonCoverage {
	if c == nil {
		return nil
	}
	called, tools := c.Count()
	all := &jsonCoverage{Called: called, Tools: tools, Percent: c.Percent(), Required: c.Min, Servers: []jsonCovered{}}
	for i := range c.Servers {
		s := &c.Servers[i]
		all.Servers = append(all.Servers, jsonCovered{s.Name, s.Err, s.Called(), len(s.Tools), s.Uncalled()})
	}
	return all
}

// value writes a value made of strings, numbers and lists.
func (j *jsonWriter) value(v any, prefix string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	if err := e.Encode(v); err != nil && j.out.err == nil {
		j.out.err = err
	}
	// Terminals act on more control characters than JSON escapes.
	for text := bytes.TrimSpace(b.Bytes()); len(text) > 0; {
		r, size := utf8.DecodeRune(text)
		if display.Harmless(r) {
			j.out.Write(text[:size])
		} else {
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(j.out, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
}

// rounded returns a duration in seconds, rounded to the microsecond.
func rounded(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }
