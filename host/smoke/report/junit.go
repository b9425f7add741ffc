package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// junitWriter writes JUnit XML: a testsuite per file, and a testcase with file and line per check.
// A failed check has a failure element, and a broken check has an error element. A file that could
// not be run is an additional testcase with an error element. Further facts are properties, of the
// testsuite or the testcase. All output is written at Close, since the counts come first.
//
// There is no standard. The document is valid by the schema of Jenkins' xUnit plugin (junit-10.xsd)
// but for two extensions of a testcase that most readers know: its properties, which are its first
// element, and the attributes file and line.
type junitWriter struct {
	out    *sink
	suites []junitSuite
}

type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	junitTotals
	Suites []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name string `xml:"name,attr"`
	File string `xml:"file,attr"`
	junitCounts
	Properties *junitProperties `xml:"properties"`
	Cases      []junitCase      `xml:"testcase"`
}

type junitTotals struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Time     string `xml:"time,attr"`
}

type junitCounts struct {
	junitTotals
	Skipped int `xml:"skipped,attr"`
}

type junitCase struct {
	Name       string           `xml:"name,attr"`
	Class      string           `xml:"classname,attr"`
	File       string           `xml:"file,attr,omitempty"`
	Line       int              `xml:"line,attr,omitempty"`
	Time       string           `xml:"time,attr"`
	Properties *junitProperties `xml:"properties"`
	Skipped    *junitSkipped    `xml:"skipped"`
	Failure    *junitFailure    `xml:"failure"`
	Error      *junitFailure    `xml:"error"`
	SystemOut  string           `xml:"system-out,omitempty"`
}

type junitSkipped struct {
	Message string `xml:"message,attr,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

func (j *junitWriter) Result(Result) error { return j.out.err }

func (j *junitWriter) File(f File) error {
	var s Summary
	s.Add(f)
	name := display.EscapeLine(f.Path)
	suite := junitSuite{Name: name, File: name, junitCounts: countsOf(s, f.Duration), Properties: fileProperties(f)}
	for _, r := range f.Results {
		suite.Cases = append(suite.Cases, junitCaseOf(r, name))
	}
	if f.Err != nil {
		text := display.Escape(f.Err.Error())
		suite.Cases = append(suite.Cases, junitCase{
			Name: "file can be run", Class: name, File: name, Time: seconds(0),
			Error: &junitFailure{Message: display.EscapeLine(firstLine(text)), Type: "wrong", Text: text},
		})
	}
	j.suites = append(j.suites, suite)
	return j.out.err
}

// countsOf returns the counts of JUnit, in which a file that could not be run is a test.
func countsOf(s Summary, d time.Duration) junitCounts {
	totals := junitTotals{Tests: s.Checks() + s.BadFiles, Failures: s.Failed, Errors: s.Broken + s.BadFiles, Time: seconds(d)}
	return junitCounts{totals, s.Skipped}
}

func junitCaseOf(r Result, class string) junitCase {
	c := junitCase{
		Name: display.EscapeLine(r.title()), Class: class, File: display.EscapeLine(r.File), Line: r.Line, Time: seconds(r.Duration),
		Properties: resultProperties(r),
	}
	failure := &junitFailure{Type: string(r.Status)}
	switch r.Status {
	case Passed:
		return c
	case Skipped:
		c.Skipped = &junitSkipped{Message: reason(r)}
		return c
	case Broken:
		c.Error = failure
	default:
		c.Failure = failure
	}
	var d details
	d.row(r.Row)
	for _, p := range r.Problems {
		d.problem(r, p)
	}
	failure.Message = "the check " + string(r.Status)
	if len(r.Problems) > 0 {
		failure.Message = headline(r.Problems[0])
	}
	failure.Text = strings.Join(d.lines, "\n")
	var out details
	out.logs(r.Logs)
	out.output(r.extraOutput())
	c.SystemOut = strings.Join(out.lines, "\n")
	return c
}

func (j *junitWriter) Close(s Summary) error {
	root := junitSuites{Name: "mcp-metatool smoke", junitTotals: countsOf(s, s.Duration).junitTotals, Suites: j.suites}
	text, err := xml.MarshalIndent(root, "", "  ")
	if err != nil {
		return err
	}
	// encoding/xml escapes newlines and tabs in text, which only attributes need. Our
	// attributes have none.
	text = bytes.ReplaceAll(text, []byte("&#xA;"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("&#x9;"), []byte("\t"))
	j.out.WriteString(xml.Header)
	j.out.Write(text)
	j.out.WriteByte('\n')
	return j.out.flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// junitProperties are the properties of a testsuite or a testcase.
type junitProperties struct {
	List []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// add adds a property, unless its value is empty.
func (p *junitProperties) add(name, value string) {
	if value != "" {
		p.List = append(p.List, junitProperty{display.EscapeLine(name), display.EscapeLine(value)})
	}
}

func (p *junitProperties) number(name string, n uint64) {
	if n > 0 {
		p.add(name, strconv.FormatUint(n, 10))
	}
}

// orNil returns nil for no properties, since an element without any is against the schemas.
func (p *junitProperties) orNil() *junitProperties {
	if len(p.List) == 0 {
		return nil
	}
	return p
}

// fileProperties returns the properties of a file and of its servers.
func fileProperties(f File) *junitProperties {
	p := &junitProperties{}
	p.add("sha256", f.Digest)
	for i := range f.Servers {
		s := &f.Servers[i]
		prefix := "server." + s.Name + "."
		p.add(prefix+"name", s.Product)
		p.add(prefix+"version", s.Version)
		p.add(prefix+"protocol", s.Protocol)
		p.add(prefix+"error", firstLine(s.Err))
		if s.Err == "" {
			p.add(prefix+"tools", strconv.Itoa(len(s.Tools)))
			p.add(prefix+"tools_called", strconv.Itoa(s.Called()))
		}
	}
	for _, path := range f.Stale {
		p.add("stale_snapshot", path)
	}
	return p.orNil()
}

// resultProperties returns the properties of a check except its outcome.
func resultProperties(r Result) *junitProperties {
	p := &junitProperties{}
	p.add("phase", r.Phase)
	p.add("tags", strings.Join(r.Tags, ","))
	p.number("row", uint64(r.Row.Number))
	for _, c := range r.Row.Cells {
		p.add("row."+c.Name, c.Value)
	}
	if r.Attempts > 1 {
		p.number("attempts", uint64(r.Attempts))
	}
	if u := r.Usage; u != nil {
		p.number("fuel", u.Fuel)
		p.number("memory", u.Memory)
		p.add("calls", strconv.FormatUint(u.Calls, 10))
	}
	return p.orNil()
}
