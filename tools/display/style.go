package display

import "fmt"

// Style is how text looks on a terminal with colours.
type Style int

// The styles. Good, Caution and Bad are for states.
const (
	Plain Style = iota
	Bold
	Faint
	Good
	Caution
	Bad
	Added   // in a diff
	Removed // in a diff
)

// codes are the parameters of the escape sequence SGR (ECMA-48).
var codes = [...]string{Plain: "", Bold: "1", Faint: "2", Good: "32", Caution: "33", Bad: "31", Added: "32", Removed: "31"}

// Apply returns text between the escape sequences of a style. text should be safe, see
// [Text].
func (s Style) Apply(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", codes[s], text)
}

// The values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// UseColor reports whether to use colours on a file. mode is one of ColorAuto, ColorAlways and
// ColorNever. With ColorAuto, the environment decides (https://no-color.org,
// https://bixense.com/clicolors), or else whether the file is a terminal.
func UseColor(mode string, terminal bool, getenv func(string) string) bool {
	forced := getenv("CLICOLOR_FORCE")
	switch {
	case mode == ColorAlways:
		return true
	case mode == ColorNever, getenv("NO_COLOR") != "":
		return false
	case forced != "" && forced != "0":
		return true
	}
	return terminal && getenv("TERM") != "dumb" && getenv("CLICOLOR") != "0"
}
