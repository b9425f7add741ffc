package interp

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// maxPadding limits the results of padding methods.
const maxPadding = 1 << 24

var stringMethods = map[string]builtinFunc{
	"casefold": mapText(func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "ß", "ss")) }),
	"center":   strPad, "ljust": strPad, "rjust": strPad, "zfill": strPad,
	"swapcase":     mapText(swapCase),
	"encode":       strEncode,
	"expandtabs":   strExpandTabs,
	"isascii":      testText(true, func(r rune) bool { return r < utf8.RuneSelf }),
	"isdecimal":    testText(false, unicode.IsDigit),
	"isdigit":      testText(false, unicode.IsDigit),
	"isnumeric":    testText(false, unicode.IsNumber),
	"isprintable":  testText(true, unicode.IsPrint),
	"isidentifier": strIsIdentifier,
	"islower":      cased(unicode.IsLower),
	"isupper":      cased(func(r rune) bool { return unicode.IsUpper(r) || unicode.IsTitle(r) }),
	"join":         strJoin,
	"split":        strSplit, "rsplit": strSplit,
	"splitlines": strSplitLines,
	"translate":  strTranslate,
	"title":      mapText(titleCase),
	"upper":      mapText(upper),
	"capitalize": mapText(func(s string) string {
		r, n := utf8.DecodeRuneInString(s)
		if n == 0 {
			return s
		}
		return titleOf(r) + strings.ToLower(s[n:])
	}),
	"format_map": strFormatMap,
}

func receiverText(b *starlark.Builtin) string { return string(b.Receiver().(starlark.String)) }

func mapText(f func(string) string) builtinFunc {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args)+len(kwargs) > 0 {
			return nil, stdlib.Errorf(stdlib.TypeError, "%s() takes no arguments", b.Name())
		}
		return starlark.String(f(receiverText(b))), nil
	}
}

// testText is a test of all characters; empty is the result for no text.
func testText(empty bool, f func(rune) bool) builtinFunc {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0); err != nil {
			return nil, err
		}
		s := receiverText(b)
		if s == "" {
			return starlark.Bool(empty), nil
		}
		return starlark.Bool(strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0), nil
	}
}

// cased tests whether all letters with a case have this case, with at least one letter.
func cased(is func(rune) bool) builtinFunc {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 0); err != nil {
			return nil, err
		}
		found := false
		for _, r := range receiverText(b) {
			switch {
			case is(r):
				found = true
			case unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r):
				return starlark.False, nil
			}
		}
		return starlark.Bool(found), nil
	}
}

// upper is s.upper(), in which a few letters become two.
func upper(s string) string {
	out := strings.ToUpper(s)
	for i := range len(out) {
		if out[i] >= utf8.RuneSelf {
			return longUpper.Replace(out)
		}
	}
	return out
}

var longUpper = strings.NewReplacer("ß", "SS", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL")

func swapCase(s string) string {
	return longUpper.Replace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsUpper(r):
			return unicode.ToLower(r)
		case unicode.IsLower(r):
			return unicode.ToUpper(r)
		}
		return r
	}, s))
}

// titleCase begins each run of letters with a capital.
func titleCase(s string) string {
	inWord := false
	var out strings.Builder
	for _, r := range s {
		if inWord {
			out.WriteRune(unicode.ToLower(r))
		} else {
			out.WriteString(titleOf(r))
		}
		inWord = unicode.IsLetter(r)
	}
	return out.String()
}

// titleOf returns a letter at the start of a word.
func titleOf(r rune) string {
	if r == 'ß' {
		return "Ss"
	}
	return string(unicode.ToTitle(r))
}

// strPad is center, ljust, rjust and zfill.
func strPad(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var width int
	fill := " "
	names := []any{"width", &width}
	if b.Name() == "zfill" {
		fill = "0"
	} else {
		names = append(names, "fillchar?", &fill)
	}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, names...); err != nil {
		return nil, err
	}
	if utf8.RuneCountInString(fill) != 1 {
		return nil, stdlib.Errorf(stdlib.TypeError, "%s: the fill character must be exactly one character long", b.Name())
	}
	s := receiverText(b)
	n := width - utf8.RuneCountInString(s)
	switch {
	case n <= 0:
		return b.Receiver(), nil
	case width > maxPadding:
		return nil, stdlib.Errorf(stdlib.OverflowError, "%s: a width above %d", b.Name(), maxPadding)
	}
	left := 0
	switch b.Name() {
	case "rjust", "zfill":
		left = n
	case "center":
		left = n/2 + n&width&1
	}
	sign := ""
	if b.Name() == "zfill" && s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	return starlark.String(sign + strings.Repeat(fill, left) + s + strings.Repeat(fill, n-left)), nil
}

func strExpandTabs(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	size := 8
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "tabsize?", &size); err != nil {
		return nil, err
	}
	s := receiverText(b)
	if size > 0 && strings.Count(s, "\t")*size > maxPadding {
		return nil, stdlib.Errorf(stdlib.OverflowError, "expandtabs: the text would be longer than %d", maxPadding)
	}
	var out strings.Builder
	col := 0
	for _, r := range s {
		switch r {
		case '\t':
			if size > 0 {
				n := size - col%size
				out.WriteString(strings.Repeat(" ", n))
				col += n
			}
			continue
		case '\n', '\r':
			col = -1
		}
		col++
		out.WriteRune(r)
	}
	return starlark.String(out.String()), nil
}

func strIsIdentifier(_ *starlark.Thread, b *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return starlark.Bool(isIdentifier(receiverText(b))), nil
}

// strJoin is sep.join(texts).
func strJoin(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var xs starlark.Iterable
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &xs); err != nil {
		return nil, err
	}
	if list, ok := xs.(*starlark.List); ok {
		return joinList(receiverText(b), list)
	}
	var out strings.Builder
	sep, i := receiverText(b), 0
	err := each(xs, func(x starlark.Value) error {
		s, ok := starlark.AsString(x)
		if !ok {
			return stdlib.Errorf(stdlib.TypeError, "join: in list, want string, got %s", x.Type())
		}
		if i > 0 {
			out.WriteString(sep)
		}
		i++
		out.WriteString(s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return starlark.String(out.String()), nil
}

func joinList(sep string, list *starlark.List) (starlark.Value, error) {
	parts := make([]string, list.Len())
	for i := range parts {
		s, ok := starlark.AsString(list.Index(i))
		if !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "join: in list, want string, got %s", list.Index(i).Type())
		}
		parts[i] = s
	}
	return starlark.String(strings.Join(parts, sep)), nil
}

// strSplit is s.split(sep=None, maxsplit=-1) and s.rsplit.
func strSplit(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var sep starlark.Value = starlark.None
	most := -1
	if len(args) == 1 && len(kwargs) == 0 {
		sep = args[0]
	} else if err := starlark.UnpackArgs(b.Name(), args, kwargs, "sep?", &sep, "maxsplit?", &most); err != nil {
		return nil, err
	}
	s := receiverText(b)
	last := b.Name() == "rsplit"
	var parts []string
	switch sep := sep.(type) {
	case starlark.NoneType:
		parts = splitSpace(s, most, last)
	case starlark.String:
		if sep == "" {
			return nil, stdlib.Errorf(stdlib.ValueError, "split: empty separator")
		}
		parts = splitText(s, string(sep), most, last)
	default:
		return nil, stdlib.Errorf(stdlib.TypeError, "split: got %s for separator, want string", sep.Type())
	}
	return textList(parts), nil
}

func textList(parts []string) *starlark.List {
	out := make([]starlark.Value, len(parts))
	for i, p := range parts {
		out[i] = starlark.String(p)
	}
	return starlark.NewList(out)
}

func splitText(s, sep string, most int, last bool) []string {
	if most < 0 {
		return strings.Split(s, sep)
	}
	if !last {
		return strings.SplitN(s, sep, most+1)
	}
	all := strings.Split(s, sep)
	if len(all) <= most+1 {
		return all
	}
	n := len(all) - most
	return append([]string{strings.Join(all[:n], sep)}, all[n:]...)
}

// splitSpace splits at runs of white space; the rest after most splits is unchanged, without white
// space at the side where splitting began.
func splitSpace(s string, most int, last bool) []string {
	if most < 0 {
		return strings.Fields(s)
	}
	var parts []string
	for {
		if last {
			s = strings.TrimRightFunc(s, unicode.IsSpace)
		} else {
			s = strings.TrimLeftFunc(s, unicode.IsSpace)
		}
		if s == "" {
			break
		}
		i := strings.IndexFunc(s, unicode.IsSpace)
		if last {
			i = strings.LastIndexFunc(s, unicode.IsSpace)
		}
		if i < 0 || len(parts) == most {
			if last {
				s = strings.TrimLeftFunc(s, func(r rune) bool { return i < 0 && unicode.IsSpace(r) })
			}
			parts = append(parts, s)
			break
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if last {
			parts, s = append(parts, s[i+size:]), s[:i]
		} else {
			parts, s = append(parts, s[:i]), s[i+size:]
		}
	}
	if last {
		for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
			parts[i], parts[j] = parts[j], parts[i]
		}
	}
	return parts
}

// strSplitLines is s.splitlines(keepends=False).
func strSplitLines(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	keep := false
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "keepends?", &keep); err != nil {
		return nil, err
	}
	var parts []string
	for s := receiverText(b); s != ""; {
		i := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			parts = append(parts, s)
			break
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			size = 2
		}
		end := i
		if keep {
			end += size
		}
		parts, s = append(parts, s[:end]), s[i+size:]
	}
	return textList(parts), nil
}

// strTranslate is s.translate(table); str.maketrans makes tables.
func strTranslate(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var table starlark.Mapping
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &table); err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, r := range receiverText(b) {
		get := table.Get
		if d, ok := table.(stdlib.DictLike); ok {
			get = d.Underlying().Get
		}
		v, found, err := get(starlark.MakeInt(int(r)))
		if !found || err != nil {
			out.WriteRune(r)
			continue
		}
		switch v := v.(type) {
		case starlark.NoneType:
		case starlark.String:
			out.WriteString(string(v))
		case starlark.Int:
			out.WriteRune(rune(clamped(v)))
		default:
			return nil, stdlib.Errorf(stdlib.TypeError, "translate: the table maps to text, a code point or None, not to %s", v.Type())
		}
	}
	return starlark.String(out.String()), nil
}

// makeTrans is str.maketrans(dict) or str.maketrans(from, to, remove="").
func makeTrans(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	out := newObject(0)
	if len(args) == 1 {
		d, ok := args[0].(starlark.IterableMapping)
		if !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "maketrans: want a dict, or two texts of the same length")
		}
		for _, item := range d.Items() {
			k := item[0]
			if s, ok := starlark.AsString(k); ok {
				r, size := utf8.DecodeRuneInString(s)
				if size != len(s) || s == "" {
					return nil, stdlib.Errorf(stdlib.ValueError, "maketrans: the keys are single characters")
				}
				k = starlark.MakeInt(int(r))
			}
			if err := out.Dict.SetKey(k, item[1]); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	var from, to, remove string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &from, &to, &remove); err != nil {
		return nil, err
	}
	keys, values := []rune(from), []rune(to)
	if len(keys) != len(values) {
		return nil, stdlib.Errorf(stdlib.ValueError, "maketrans: the two texts must have equal length")
	}
	for i, k := range keys {
		_ = out.Dict.SetKey(starlark.MakeInt(int(k)), starlark.MakeInt(int(values[i])))
	}
	for _, k := range remove {
		_ = out.Dict.SetKey(starlark.MakeInt(int(k)), starlark.None)
	}
	return out, nil
}

func strFormatMap(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := onlyArgument(b, args, kwargs)
	if err != nil {
		return nil, err
	}
	d, ok := v.(starlark.IterableMapping)
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "format_map: want a dict, got %s", v.Type())
	}
	return format(thread, starlark.NewBuiltin(formatMethod, format).BindReceiver(b.Receiver()), nil, d.Items())
}
