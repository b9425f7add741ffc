package report

import (
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
