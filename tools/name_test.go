package tools

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "summary", "A-b_9", "0", "-", strings.Repeat("x", 64), "console", "com", "com10", "nulls"} {
		if err := CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"":                      "is empty",
		strings.Repeat("x", 65): "65 bytes long",
		"a b":                   `' ' is not allowed`,
		"a/b":                   `'/' is not allowed`,
		"..":                    `'.' is not allowed`,
		"a\x00":                 `'\x00' is not allowed`,
		"größe":                 `'ö' is not allowed`,
		"a\xff":                 "is not allowed",
		"a\n":                   `'\n' is not allowed`,
		"CON":                   "device name",
		"nul":                   "device name",
		"Com1":                  "device name",
		"lpt9":                  "device name",
	} {
		err := CheckName(name)
		var ne *NameError
		if !errors.As(err, &ne) || !strings.Contains(err.Error(), want) {
			t.Errorf("CheckName(%q) = %v, want a NameError with %q", name, err, want)
		}
	}
}
