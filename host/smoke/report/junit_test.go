package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// junitRule says what an element may have: by the schema junit-10.xsd of Jenkins' xUnit
// plugin, and the extensions that junitWriter names.
type junitRule struct {
	required, optional []string // attributes
	children           []string
	text               bool
}

var junitRules = map[string]junitRule{
	"testsuites": {optional: []string{"name", "time", "tests", "failures", "errors"}, children: []string{"testsuite"}},
	"testsuite": {
		required: []string{"name", "tests", "failures", "errors"},
		optional: []string{"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
		children: []string{"testsuite", "properties", "testcase", "system-out", "system-err"},
	},
	"testcase": {
		required: []string{"name"}, optional: []string{"time", "classname", "group", "file", "line"}, // the last two are extensions
		children: []string{"properties", "skipped", "error", "failure", "system-out", "system-err"}, // the first is an extension
	},
	"properties": {children: []string{"property"}},
	"property":   {required: []string{"name", "value"}},
	"skipped":    {optional: []string{"type", "message"}, text: true},
	"error":      {optional: []string{"type", "message"}, text: true},
	"failure":    {optional: []string{"type", "message"}, text: true},
	"system-out": {text: true},
	"system-err": {text: true},
}

// surefireTime is the form of the attribute time of suites.
var surefireTime = regexp.MustCompile(`^(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?$`)

// junitProblem returns an error if an XML document breaks junitRules.
func junitProblem(document string) error {
	d := xml.NewDecoder(strings.NewReader(document))
	var open []string
	children := []int{0} // of each open element
	for {
		token, err := d.Token()
		switch token := token.(type) {
		case nil:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case xml.StartElement:
			name := token.Name.Local
			if err := junitElement(open, token, children[len(children)-1]); err != nil {
				return fmt.Errorf("<%s> in %q: %w", name, open, err)
			}
			children[len(children)-1]++
			open, children = append(open, name), append(children, 0)
		case xml.EndElement:
			open, children = open[:len(open)-1], children[:len(children)-1]
		case xml.CharData:
			if len(open) > 0 && !junitRules[open[len(open)-1]].text && strings.TrimSpace(string(token)) != "" {
				return fmt.Errorf("text %q in %q", token, open)
			}
		}
	}
}

// junitElement returns an error if an element, with so many before it, is wrong.
func junitElement(open []string, e xml.StartElement, before int) error {
	name := e.Name.Local
	if len(open) == 0 {
		if name != "testsuites" {
			return errors.New("is the root")
		}
	} else if !slices.Contains(junitRules[open[len(open)-1]].children, name) {
		return errors.New("is not expected there")
	}
	if name == "properties" && before > 0 {
		return errors.New("is not the first")
	}
	rule := junitRules[name]
	found := map[string]bool{}
	for _, a := range e.Attr {
		if !slices.Contains(rule.required, a.Name.Local) && !slices.Contains(rule.optional, a.Name.Local) {
			return fmt.Errorf("has the attribute %s", a.Name.Local)
		}
		if a.Name.Local == "time" && !surefireTime.MatchString(a.Value) {
			return fmt.Errorf("has the time %q", a.Value)
		}
		found[a.Name.Local] = true
	}
	for _, want := range rule.required {
		if !found[want] {
			return fmt.Errorf("lacks the attribute %s", want)
		}
	}
	return nil
}

// TestJUnitSchema checks documents by the rules of a schema, and that the rules find
// mistakes.
func TestJUnitSchema(t *testing.T) {
	for _, files := range [][]File{nil, sample(t), {{}}, {{Results: []Result{{}}}}} {
		text := render(t, "junit", Options{}, files)
		if err := junitProblem(text); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	for _, wrong := range []string{
		`<testsuite/>`, `<testsuites skipped="1"/>`, `<testsuites>text</testsuites>`, `<testsuites time="1h"/>`,
		`<testsuites><testcase name="x"/></testsuites>`, `<testsuites><testsuite name="x"/></testsuites>`,
		`<testsuites><testsuite name="x" tests="1" failures="0" errors="0"><testcase name="x"><failure/><properties/></testcase></testsuite></testsuites>`,
	} {
		if junitProblem(wrong) == nil {
			t.Errorf("%s passes", wrong)
		}
	}
}
