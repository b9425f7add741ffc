package tools

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// MaxNameLength is the longest tool name in bytes, as limited by model providers for the
// names of functions.
const MaxNameLength = 64

// NameError says why a string cannot name a composite tool.
type NameError struct {
	Name   string
	Reason string // starts in lower case and names the remedy
}

func (e *NameError) Error() string {
	return fmt.Sprintf("tool name %q: %s", display.Clip(e.Name, 80), e.Reason)
}

// CheckName returns an error if name is not a valid name of a composite tool. A name has 1 to 64 of
// the characters A-Z, a-z, 0-9, "_" and "-". Windows device names (CON, NUL, COM1, ...) are refused
// on every system, so that a tools directory can be copied anywhere. The error is a [*NameError].
func CheckName(name string) error {
	switch {
	case name == "":
		return &NameError{name, "is empty (give 1 to 64 of A-Z a-z 0-9 _ -)"}
	case len(name) > MaxNameLength:
		return &NameError{name, fmt.Sprintf("is %d bytes long (at most %d)", len(name), MaxNameLength)}
	}
	for _, r := range name {
		if !isNameRune(r) {
			return &NameError{name, fmt.Sprintf("%q is not allowed (use A-Z a-z 0-9 _ -)", r)}
		}
	}
	if isDeviceName(name) {
		return &NameError{name, "is a device name on Windows and cannot be a file name there (choose another)"}
	}
	return nil
}

func isNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}

// isDeviceName follows "Naming Files, Paths, and Namespaces" in the Windows documentation: a device
// name with an extension remains a device name, so "nul.json" would not be a file.
func isDeviceName(name string) bool {
	upper := strings.ToUpper(name)
	switch upper {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	if len(upper) != 4 || upper[3] < '0' || upper[3] > '9' {
		return false
	}
	return upper[:3] == "COM" || upper[:3] == "LPT"
}
