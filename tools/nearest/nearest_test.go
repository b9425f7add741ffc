package nearest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestNames(t *testing.T) {
	known := []string{"search_issues", "search_code", "get_issue", "x"}
	for _, tt := range []struct {
		name string
		want []string
	}{
		{"search_isues", []string{"search_issues", "search_code"}},
		{"getIssue", []string{"get_issue"}},
		{"GET-ISSUE", []string{"get_issue"}},
		{"search", []string{"search_code", "search_issues"}},
		{"zzzzzz", nil},
		{"y", nil},
		{"", nil},
	} {
		if got := Names(tt.name, known); !slices.Equal(got, tt.want) {
			t.Errorf("Names(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := Names("tool", []string{"tool4", "tool3", "tool2", "tool1"}); !slices.Equal(got, []string{"tool1", "tool2", "tool3"}) {
		t.Errorf("of equals: %q", got)
	}
}

func TestName(t *testing.T) {
	for _, tt := range []struct {
		name  string
		known []string
		limit int
		want  string
	}{
		{"comand", []string{"args", "command"}, 2, "command"},
		{"Time_Out", []string{"timeout"}, 0, ""},
		{"Time_Out", []string{"timeout"}, 1, "timeout"},
		{"User-ID", []string{"user_id"}, 0, "user_id"},
		{"ab", []string{"ac", "ad"}, 1, "ac"},
		{"ab", []string{"cd"}, 1, ""},
		{"ab", nil, 10, ""},
	} {
		if got := Name(tt.name, tt.known, tt.limit); got != tt.want {
			t.Errorf("Name(%q, %q, %d) = %q, want %q", tt.name, tt.known, tt.limit, got, tt.want)
		}
	}
}

func TestLimit(t *testing.T) {
	for n, want := range []int{0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 4} {
		if got := Limit(n); got != want {
			t.Errorf("Limit(%d) = %d, want %d", n, got, want)
		}
	}
}

// TestWorkIsBounded checks that neither a long name nor very many known names make a hint
// expensive.
func TestWorkIsBounded(t *testing.T) {
	long := strings.Repeat("a", MaxLength+1)
	known := []string{long, long[1:], long[2:], strings.Repeat("a", 1<<20)}
	if names := Names(long, known); names != nil || Name(long, known, 1000) != "" {
		t.Errorf("a long name: %q", names)
	}
	if names := Names(long[1:], known); !slices.Equal(names, []string{long[1:], long[2:]}) || Name(long[3:], known, 1000) != long[2:] {
		t.Errorf("the longest name: %q", names)
	}
	known = nil
	for i := range 100_000 {
		known = append(known, fmt.Sprintf("server__a_tool_with_a_name_%06d", i))
	}
	c := newComparison("server__a_tool_with_a_name_x00001")
	if names := c.names(known, Limit(33)); len(names) != maxNames || names[0] != "server__a_tool_with_a_name_000001" {
		t.Errorf("%q", names)
	}
	if spent := maxWork - c.left; spent > maxWork || spent < maxWork/2 {
		t.Errorf("%d pairs were compared", spent)
	}
}
