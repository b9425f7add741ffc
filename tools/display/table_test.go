package display

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"", 5, ""}, {"one two three", 7, "one two|three"}, {"abcdefgh", 3, "abc|def|gh"}, {"a abcdefgh b", 4, "a|abcd|efgh|b"},
		{"/usr/lib/thing", 10, "/usr/lib/|thing"}, {"語語語", 4, "語語|語"}, {"語", 1, "語"}, {"x", 0, "x"}, {"कााााx", 2, "का|ाा|ाx"},
		{"👩‍👩‍👧👩‍👩‍👧", 2, "👩‍👩‍👧|👩‍👩‍👧"},
	} {
		if got := strings.Join(Wrap(tt.text, tt.n), "|"); got != tt.want {
			t.Errorf("Wrap(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
	if got := Paragraphs("a b\nc d\n\n  as it is here\ne", 3); got != "a b\nc d\n\n  as it is here\ne" {
		t.Errorf("%q", got)
	}
}

func TestUseColor(t *testing.T) {
	for _, tt := range []struct {
		mode     string
		terminal bool
		env      string
		want     bool
	}{
		{"auto", true, "", true}, {"auto", false, "", false}, {"auto", true, "NO_COLOR=1", false}, {"auto", true, "TERM=dumb", false},
		{"auto", false, "CLICOLOR_FORCE=1", true}, {"auto", false, "CLICOLOR_FORCE=0", false}, {"auto", true, "CLICOLOR=0", false},
		{"auto", true, "NO_COLOR=1 CLICOLOR_FORCE=1", false}, {"always", false, "NO_COLOR=1", true}, {"never", true, "CLICOLOR_FORCE=1", false},
	} {
		getenv := func(name string) string {
			for pair := range strings.FieldsSeq(tt.env) {
				if key, value, _ := strings.Cut(pair, "="); key == name {
					return value
				}
			}
			return ""
		}
		if got := UseColor(tt.mode, tt.terminal, getenv); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// servers returns a table with a short form, an empty column and a long last column.
func servers(width int) string {
	t := Table{Width: width, Columns: []Column{{Head: "NAME"}, {Head: "STARTED"}, {Head: "NOTHING"}, {Head: "TOOLS", Right: true}, {Head: "ERROR"}}}
	t.Row(Cell{Text: "files"}, Cell{Text: "2026-11-23 06:10:12 +05:30", Short: "06:10"}, Cell{}, Cell{Text: "12"}, Cell{})
	t.Row(Cell{Text: "web", Style: Bad}, Cell{}, Cell{}, Cell{}, Cell{Text: "cannot be started: npx is not in the PATH"})
	var b strings.Builder
	if err := t.Write(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

func TestTableFits(t *testing.T) {
	for width, want := range map[int]string{
		0: `
NAME   STARTED                     NOTHING  TOOLS  ERROR
files  2026-11-23 06:10:12 +05:30  -           12
web    -                           -            -  cannot be started: npx is not in the PATH
`,
		80: `
NAME   STARTED  NOTHING  TOOLS  ERROR
files  06:10    -           12
web    -        -            -  cannot be started: npx is not in the PATH
`,
		50: `
NAME   STARTED  TOOLS  ERROR
files  06:10       12
web    -            -  cannot be started: npx is
                       not in the PATH
`,
		30: `
NAME   STARTED  TOOLS
files  06:10       12
web    -            -
    cannot be started: npx is
    not in the PATH
`,
		18: `
NAME     files
STARTED  06:10
TOOLS    12

NAME     web
ERROR    cannot be
         started:
         npx is
         not in
         the PATH
`,
	} {
		if got := servers(width); got != want[1:] {
			t.Errorf("width %d:\n%s", width, got)
		}
		for line := range strings.SplitSeq(servers(width), "\n") {
			if width > 0 && Width(line) > width {
				t.Errorf("width %d: %q", width, line)
			}
		}
	}
}

func TestTableLater(t *testing.T) {
	table := Table{Columns: []Column{{Head: "A", Least: 3}, {Head: "B"}}, Color: true}
	var b strings.Builder
	for _, text := range []string{"x", "\x1b[2Jlong"} {
		table.Row(Cell{Text: text, Style: Good}, Cell{Text: "語 \n b"})
		if err := table.Write(&b); err != nil {
			t.Fatal(err)
		}
	}
	const want = "\x1b[1mA\x1b[0m    \x1b[1mB\x1b[0m\n\x1b[32mx\x1b[0m    語 b\n\x1b[32m\uFFFD[2Jlong\x1b[0m  語 b\n"
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// wideCharacter is one character of 40 columns.
var wideCharacter = "क" + strings.Repeat("ा", 39)

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"語語", 4, "語語"}, {"語語語", 4, "語…"}, {"x", 0, ""}, {"x", -3, ""},
		{"ab" + wideCharacter, 10, "ab…"}, {wideCharacter, 40, wideCharacter},
	} {
		if got := Cut(tt.text, tt.n); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.text, tt.n, got, tt.want)
		}
	}
}

// FuzzTable checks that no text of a cell makes a row wider than the terminal, or does worse,
// also in rows that are written later.
func FuzzTable(f *testing.F) {
	for _, width := range []int{0, 1, 24, 80} {
		f.Add("files", wideCharacter, width)
		f.Add(wideCharacter, "x "+wideCharacter+"y", width)
		f.Add("語語語語", "👩‍👩‍👧 \x1b[2J\xff\ufe0f", width)
	}
	f.Fuzz(func(t *testing.T, name, text string, width int) {
		width %= 200
		table := Table{Width: width, Columns: []Column{{Head: "NAME"}, {Head: "N", Right: true}, {Head: "ERROR"}}}
		for n, cells := range [][]Cell{{{Text: name}, {Text: text}, {Text: text}}, {{Text: text}, {Text: name}, {Text: name, Short: text}}} {
			table.Row(cells...)
			var b strings.Builder
			if err := table.Write(&b); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(b.String()) {
				if line = strings.TrimSuffix(line, "\n"); n == 0 && width >= 24 && Width(line) > width {
					t.Errorf("%d columns, want %d: %q", Width(line), width, line)
				}
			}
		}
	})
}
