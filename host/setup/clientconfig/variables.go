package clientconfig

import (
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"path/filepath"
	"slices"
	"strings"
)

// variables lists the variables that a host expands in its files.
type variables int

const (
	noVariables       variables = iota // ${X} is text: Claude Desktop, Codex, Zed
	shellVariables                     // ${X} and ${X:-default}: Claude Code
	editorVariables                    // ${env:X}, ${input:x}, ${workspaceFolder}, ...: VS Code, Cursor, Windsurf
	allVariables                       // both: a file of which the host is not known
	metatoolVariables                  // variables of the product's configuration, which stay unchanged
)

var (
	envName    = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	shellForm  = lazyregexp.New(`^([A-Za-z_][A-Za-z0-9_]*)(:-[^{}]*)?$`)
	notAllowed = lazyregexp.New(`[^A-Z0-9]+`)
)

// VariableName makes the name of an environment variable of a text such as api-key.
func VariableName(text string) string {
	name := strings.Trim(notAllowed.ReplaceAllString(strings.ToUpper(text), "_"), "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "MCP_" + name
	}
	return name
}

// translator rewrites texts of a file to the variables of the product's configuration, and collects
// the texts that cannot be rewritten.
type translator struct {
	kind    variables
	sys     *System
	project string // the folder for ${workspaceFolder}
	sure    bool   // project is certain
	files   bool   // the host expands ${file:/path} here
	notes   []string
	refs    []Setting // see Server.References
}

// refer records the host's expression for a variable of the product, and returns the variable.
func (t *translator) refer(variable, expression string) string {
	t.refs = with(t.refs, Setting{variable, "${" + expression + "}"})
	return "${" + variable + "}"
}

func (t *translator) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// expandsFiles reports whether a host puts the content of a file in place of ${file:/path} in its
// own file f. Windsurf does. Anywhere else, for example in a file from a repository, the expression
// is text, and must not make the product read the file.
func expandsFiles(s *System, f File) bool {
	return f.Scope == User && slices.ContainsFunc(Lookup("windsurf").Files(s), func(own File) bool { return own.Path == f.Path })
}

// text rewrites a text. Dollar signs without a meaning for the host are escaped.
func (t *translator) text(s string) string {
	if t.kind == metatoolVariables {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		expression, after, closed := strings.Cut(rest, "}")
		value, ok := "", false
		if closed && !strings.HasSuffix(before, "$") {
			value, ok = t.expression(expression)
		}
		if !ok {
			if t.kind != noVariables {
				t.note("${%s} is not a variable that can be taken over, and stays as text", clip(expression))
			}
			b.WriteString("$${")
			s = rest
			continue
		}
		b.WriteString(value)
		s = after
	}
}

// expression returns the product's text for ${expression}.
func (t *translator) expression(expression string) (string, bool) {
	if t.kind == shellVariables || t.kind == allVariables {
		if shellForm.MatchString(expression) && !(t.kind == allVariables && t.isFolder(expression)) {
			return "${" + expression + "}", true
		}
	}
	if t.kind != editorVariables && t.kind != allVariables {
		return "", false
	}
	kind, name, colon := strings.Cut(expression, ":")
	switch {
	case colon && kind == "env" && envName.MatchString(name):
		return t.refer(name, expression), true
	case colon && kind == "input" && name != "":
		variable := VariableName(name)
		t.note("${input:%s}, which the host asks for, becomes the environment variable %s", clip(name), variable)
		return t.refer(variable, expression), true
	case colon && kind == "file" && t.files && filepath.IsAbs(name):
		return "${" + expression + "}", true
	case colon:
		return "", false
	}
	switch expression {
	case "userHome":
		return escape(t.sys.Home), true
	case "pathSeparator", "/":
		return string(filepath.Separator), true
	case "workspaceFolder", "cwd", "workspaceFolderBasename":
		folder := t.project
		if !t.sure {
			t.note("${%s} becomes %s: mcp-metatool does not know which folder the host has open", expression, t.project)
		}
		if expression == "workspaceFolderBasename" {
			folder = filepath.Base(folder)
		}
		return escape(folder), true
	}
	return "", false
}

func (t *translator) isFolder(expression string) bool {
	switch expression {
	case "userHome", "pathSeparator", "workspaceFolder", "cwd", "workspaceFolderBasename":
		return true
	}
	return false
}

// escape makes a text without variables.
func escape(s string) string { return strings.ReplaceAll(s, "${", "$${") }

// clip shortens the name of a variable for a message.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}
