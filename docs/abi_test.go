package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
)

var codes = map[string]abi.Code{
	"OK": abi.OK, "ToolError": abi.ToolError, "Invalid": abi.Invalid, "Limit": abi.Limit,
}

// hostFunction is the description of a host function.
type hostFunction struct {
	signature string // (ptr, cap i32) -> i64
	codes     []string
}

// TestABIFunctions checks that docs/abi.md describes the functions of abi.go, with the
// same parameters and codes.
func TestABIFunctions(t *testing.T) {
	page, source := functionsOfPage(t), functionsOfSource(t)
	if len(source) != len(abitest.HostFunctions)+1 { // fuel_out is for metered code only
		t.Fatalf("abi.go describes %d functions, there are %d", len(source), len(abitest.HostFunctions)+1)
	}
	for name, want := range source {
		got, ok := page[name]
		if !ok {
			t.Errorf("docs/abi.md lacks %s", name)
		} else if got.signature != want.signature || !slices.Equal(got.codes, want.codes) {
			t.Errorf("%s is described as %q, and in abi.go as %q", name, got, want)
		}
	}
	for name := range page {
		if _, ok := source[name]; !ok {
			t.Errorf("docs/abi.md describes %s, which does not exist", name)
		}
	}
	for _, f := range abitest.HostFunctions {
		signature := page[f.Name].signature
		params, _, _ := strings.Cut(strings.TrimPrefix(signature, "("), " i32)")
		number := 0
		if !strings.HasPrefix(params, ")") {
			number = strings.Count(params, ",") + 1
		}
		if number != len(f.Params) || strings.HasSuffix(signature, "-> i64") != (len(f.Results) == 1) {
			t.Errorf("%s has %d parameters and %d results, docs/abi.md says %s", f.Name, len(f.Params), len(f.Results), signature)
		}
	}
}

func functionsOfPage(t *testing.T) map[string]hostFunction {
	t.Helper()
	found := map[string]hostFunction{}
	sections := strings.Split(read(t, "docs/abi.md"), "\n### ")
	for _, section := range sections[1:] {
		section, _, _ = strings.Cut(section, "\n## ")
		m := regexp.MustCompile("^`([a-z_]+)(\\(.*)`\n").FindStringSubmatch(section)
		if m == nil {
			t.Fatalf("not a function: %q", section)
		}
		f := hostFunction{signature: m[2]}
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
			f.codes = append(f.codes, row[1])
		}
		slices.Sort(f.codes)
		found[m[1]] = f
	}
	return found
}

// functionsOfSource reads the comments of the constants Func... in abi.go.
func functionsOfSource(t *testing.T) map[string]hostFunction {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), inRepository("abi/abi.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]hostFunction{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Func") {
			return true
		}
		name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(spec.Doc.Text()), " ")
		m := regexp.MustCompile(`^\w+ (\(.*?\)(?: -> i64)?) `).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("the comment of %s has no signature: %s", name, text)
		}
		described := hostFunction{signature: m[1]}
		for code := range codes {
			if regexp.MustCompile(`\b(?:Code )?` + code + `\b(?: with|[:;.,]| when| for)`).MatchString(text) {
				described.codes = append(described.codes, code)
			}
		}
		slices.Sort(described.codes)
		found[name] = described
		return true
	})
	return found
}

// TestABIResults packs and unpacks the results that docs/abi.md shows.
func TestABIResults(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| `(0x[0-9a-f_]+)` \\| `(\\w+)` \\((\\d)\\) \\| (\\d+) \\|").FindAllStringSubmatch(read(t, "docs/abi.md"), -1)
	if len(rows) != len(codes) {
		t.Fatalf("%d results, want one for each code", len(rows))
	}
	for _, row := range rows {
		code, n := abi.Unpack(number(t, row[1]))
		if fmt.Sprint(uint32(code)) != row[3] || code != codes[row[2]] || fmt.Sprint(n) != row[4] {
			t.Errorf("%s is code %d, number %d", row[0], code, n)
		}
		if packed := abi.Pack(codes[row[2]], n); packed != number(t, row[1]) {
			t.Errorf("%s is %#x", row[0], packed)
		}
	}
}

// TestABILimits compares the table of limits with the constants of abi.go.
func TestABILimits(t *testing.T) {
	text := read(t, "docs/abi.md")
	for name, value := range map[string]int{
		"MaxMessage": abi.MaxMessage, "MaxDepth": abi.MaxDepth, "MaxBatch": abi.MaxBatch,
		"MaxProgress": abi.MaxProgress, "MaxFrames": abi.MaxFrames, "MaxChain": abi.MaxChain,
	} {
		if !regexp.MustCompile("(?m)^\\| `" + name + "`, .* \\| " + fmt.Sprint(value) + " \\|$").MatchString(text) {
			t.Errorf("docs/abi.md does not say that %s is %d", name, value)
		}
	}
	if !strings.Contains(text, fmt.Sprintf("The version of this contract is %d.", abi.Version)) {
		t.Errorf("docs/abi.md does not say that the version is %d", abi.Version)
	}
}

// TestABIWorkedRun checks each call of the worked run: abi encodes the messages in the
// same way, and the lengths and the unpacked results match them.
func TestABIWorkedRun(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "docs/abi.md"), "## A worked run")
	block := codeBlock.FindString(text)
	calls := regexp.MustCompile(`(?m)^([a-z_]+)\((.*)\) = (0x[0-9a-f_]+)\n(?:    (.*)\n)?`).FindAllStringSubmatch(block, -1)
	used := map[string]bool{}
	for _, m := range calls {
		var args []uint64
		for arg := range strings.SplitSeq(m[2], ", ") {
			args = append(args, number(t, arg))
		}
		code, n := abi.Unpack(number(t, m[3]))
		if err := checkWorkedCall(m[1], args, code, n, m[4]); err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(m[0]), err)
		}
		used[m[1]] = true
	}
	want := []string{abi.FuncAnswerRead, abi.FuncCallTools, abi.FuncLog, abi.FuncRequestRead, abi.FuncResponseWrite}
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(got, want) {
		t.Errorf("the run calls %q, want %q", got, want)
	}
}

// checkWorkedCall checks one call: its arguments, its result, and the message
// that it gives or receives.
func checkWorkedCall(function string, args []uint64, code abi.Code, n uint32, message string) error {
	last := args[len(args)-1]
	size := uint64(len(message))
	switch function {
	case abi.FuncRequestRead, abi.FuncAnswerRead:
		if code != abi.Invalid && (message != "") != (uint64(n) <= last) {
			return fmt.Errorf("%d bytes into a buffer of %d", n, last)
		}
		if message != "" && uint64(n) != size {
			return fmt.Errorf("the message has %d bytes, the result says %d", size, n)
		}
	default:
		if last != size {
			return fmt.Errorf("the message has %d bytes, the guest says %d", size, last)
		}
	}
	if message == "" {
		return nil
	}
	switch {
	case function == abi.FuncRequestRead:
		return sameEncoding(message, new(abi.Request))
	case function == abi.FuncCallTools:
		calls := new([]abi.ToolCall)
		if err := sameEncoding(message, calls); err != nil {
			return err
		}
		if len(*calls) != int(n) {
			return fmt.Errorf("%d calls, %d answers", len(*calls), n)
		}
	case function == abi.FuncAnswerRead && code == abi.ToolError:
		return sameEncoding(message, new(abi.CallError))
	case function == abi.FuncResponseWrite && args[0] == uint64(abi.ResponseError):
		return sameEncoding(message, new(abi.Error))
	case function != abi.FuncLog && !json.Valid([]byte(message)):
		return fmt.Errorf("not JSON")
	}
	return nil
}

// sameEncoding decodes a message strictly and encodes it again.
func sameEncoding(message string, into any) error {
	dec := json.NewDecoder(strings.NewReader(message))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("more than one value")
	}
	again, err := json.Marshal(into)
	if err == nil && !bytes.Equal(again, []byte(message)) {
		err = fmt.Errorf("abi encodes it as %s", again)
	}
	return err
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
