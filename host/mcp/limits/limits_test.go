package limits

import (
	"errors"
	"fmt"
	"testing"
)

// TestTable checks that the rows differ and that each has a default within its bounds.
func TestTable(t *testing.T) {
	names, settings := map[string]bool{}, map[string]bool{}
	for _, l := range All {
		what := l.Name + " " + l.Setting()
		switch {
		case l.Name == "" && l.Key == "":
			t.Errorf("%+v has neither a name nor a key", l)
		case l.Name != "" && (names[l.Name] || Find(l.Name) != l):
			t.Errorf("%s: there are two of that name", what)
		case l.Key != "" && settings[l.Setting()]:
			t.Errorf("%s: there are two of that key", what)
		case l.Key == "" && (l.Default == 0 || l.Least != 0 || l.Most != 0):
			t.Errorf("%s: a fixed limit has a value and no bounds", what)
		case l.Key != "" && (l.Least < 0 || l.Most <= l.Least):
			t.Errorf("%s: from %d to %d", what, l.Least, l.Most)
		case (l.Derived == "") == (l.Default == 0):
			t.Errorf("%s: want either a default or where it comes from", what)
		case l.Key != "" && l.Derived == "" && (l.Default < l.Least || l.Default > l.Most):
			t.Errorf("%s: the default %s is out of bounds", what, l.Format(l.Default))
		}
		names[l.Name], settings[l.Setting()] = true, true
	}
	if len(All) < 30 {
		t.Errorf("only %d limits", len(All))
	}
	if Find("") != nil || Find("none") != nil {
		t.Error("found a limit without a name")
	}
}

func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		limit                   *Limit
		setting, remedy, format string // of its default
	}{
		{Message, "max_message", "raise max_message", "64MiB"},
		{Memory, "execution.max_memory", "raise execution.max_memory", "128MiB"},
		{Queue, "execution.max_queued", "call again later, or raise execution.max_queued", "10000"},
		{Time, "execution.timeout", "raise execution.timeout", "30s"},
		{Recursion, "", "this limit is fixed", "1000"},
		{ProbeTime, "upstream.probe.timeout", "raise upstream.probe.timeout", "10s"},
	} {
		if l := tt.limit; l.Setting() != tt.setting || l.Remedy() != tt.remedy || l.Format(l.Default) != tt.format {
			t.Errorf("%s: %q, %q, %q", l.Name, l.Setting(), l.Remedy(), l.Format(l.Default))
		}
	}
}

type met string

func (m met) Error() string     { return "too much" }
func (m met) LimitName() string { return string(m) }

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{met("memory"), "too much (raise execution.max_memory)"},
		{fmt.Errorf("script: %w", met("memory")), "script: too much (raise execution.max_memory)"},
		{met("recursion"), "too much; this limit is fixed"},
		{met("of somebody else"), "too much"},
		{errors.New("broken"), "broken"},
	} {
		if got := Explain(tt.err); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
