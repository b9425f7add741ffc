package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
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
