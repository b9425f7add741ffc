package cli

import (
	"testing"
)

func TestReference(t *testing.T) {
	t.Setenv("SERVER_TOKEN", "one")
	a := &Target{Given: map[string]string{}}
	for _, tt := range [][3]string{
		{"server-token", "one", "${SERVER_TOKEN}"}, {"server-token", "two", "${SERVER_TOKEN_2}"}, {"server-token", "two", "${SERVER_TOKEN_2}"}, {"1x", "y", "${MCP_1X}"},
	} {
		if got := a.Reference(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s for %s, want %s", got, tt[0], tt[2])
		}
	}
	if a.Given["SERVER_TOKEN_2"] != "two" || len(a.Given) != 2 {
		t.Error(a.Given)
	}
}
