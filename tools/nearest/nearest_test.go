package nearest

import (
	"slices"
	"testing"
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
