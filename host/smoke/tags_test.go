package smoke

import (
	"strings"
	"testing"
)

func TestParseTags(t *testing.T) {
	for _, tt := range []struct {
		flags, tags string
		want        bool
	}{
		{"a", "a b", true}, {"a", "b", false}, {"a", "", false}, {"a b", "b", true}, {"a,b", "b", true},
		{"!slow", "", true}, {"!slow", "slow", false}, {"a !slow", "a", true}, {"a !slow", "a slow", false}, {"a !slow", "b", false},
		{"!slow !db", "db", false}, {"a, !slow", "a", true},
	} {
		chosen, err := ParseTags(strings.Split(tt.flags, " "))
		if tt.flags == "a, !slow" {
			chosen, err = ParseTags([]string{tt.flags})
		}
		if err != nil {
			t.Errorf("%s: %v", tt.flags, err)
		} else if chosen(strings.Fields(tt.tags)) != tt.want {
			t.Errorf("%s with tags %q: %v", tt.flags, tt.tags, !tt.want)
		}
	}
	if chosen, err := ParseTags(nil); chosen != nil || err != nil {
		t.Errorf("no tags: %v", err)
	}
	for _, wrong := range []string{"", "!", "a b", "a,", "a,!a", "!!a", "é"} {
		if _, err := ParseTags([]string{wrong}); err == nil {
			t.Errorf("%q is no error", wrong)
		}
	}
}

func TestParseVar(t *testing.T) {
	for text, want := range map[string]string{
		"a=1": `a 1`, "a=01": `a "01"`, "a=x=y": `a "x=y"`, "a=": `a ""`, "a=true": `a true`, `a="1"`: `a "1"`, "a= 1": `a " 1"`,
		`a-b={"x":[1]}`: `a-b {"x":[1]}`, "a={x": `a "{x"`, "a=null": "a null", "a=1 2": `a "1 2"`,
	} {
		name, raw, err := ParseVar(text)
		if got := name + " " + string(raw); got != want || err != nil {
			t.Errorf("%s is %s (%v), want %s", text, got, err, want)
		}
	}
	for _, wrong := range []string{"a", "=1", "1a=1", "a b=1", ""} {
		if _, _, err := ParseVar(wrong); err == nil {
			t.Errorf("%q is no error", wrong)
		}
	}
}
