package clientconfig

import (
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// SecretTexts returns all texts in a file of a host that look like secrets, by name or form,
// including the tokens of other programs. The result is for a [config.Masker]; nil if the file
// cannot be read.
func (l *Listing) SecretTexts() []string {
	root, err := readTree(l.File.Host.Format, l.Data)
	if err != nil {
		return nil
	}
	var found []string
	collectSecrets("", root, &found)
	return found
}

// collectSecrets adds the secrets in the value of a name.
func collectSecrets(name string, v any, found *[]string) {
	switch v := v.(type) {
	case string:
		for _, span := range secretSpans(name, v) {
			*found = append(*found, v[span.From:span.To])
		}
	case []any:
		option := name
		for _, item := range v {
			collectSecrets(option, item, found)
			if text, ok := item.(string); ok && strings.HasPrefix(text, "-") && !strings.Contains(text, "=") {
				option = text // the next text is its value
			} else {
				option = name
			}
		}
	case *object:
		for _, key := range v.keys {
			collectSecrets(key, v.fields[key], found)
		}
	}
}

// secretSpans returns the parts of a text that look like secrets in plain text.
func secretSpans(name, text string) []config.Span {
	spans := slices.Concat(config.PlainSecrets(name, text), secretForms(text))
	slices.SortFunc(spans, func(a, b config.Span) int { return a.From - b.From })
	return spans
}

// Mask returns the text of a setting with its secrets in plain text masked.
func Mask(name, text string) string {
	if _, after, ok := strings.Cut(name, "."); ok {
		name = after
	}
	return maskSpans(text, secretSpans(name, text))
}

func maskSpans(text string, spans []config.Span) string {
	var b strings.Builder
	end := 0
	for _, s := range spans {
		if s.From >= end {
			b.WriteString(text[end:s.From] + "****")
		}
		end = max(end, s.To)
	}
	return b.String() + text[min(end, len(text)):]
}

// quotedValue is a name with a quoted value, as in JSON and TOML: in a comment too.
var quotedValue = lazyregexp.New(`([A-Za-z0-9_.-]+)["']?\s*[:=]\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')`)

// quotedWord is a quoted text.
var quotedWord = lazyregexp.New(`"((?:[^"\\]|\\.)*)"|'([^']*)'`)

// MaskLines masks apparent secrets in the lines of a file, judging by each line alone. MaskLines
// also finds secrets in comments, which no parser does.
func MaskLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(maskSpans(line, lineSecrets(line)))
	}
	return b.String()
}

func lineSecrets(line string) []config.Span {
	var spans []config.Span
	add := func(name string, from, to int) {
		for _, s := range secretSpans(name, line[from:to]) {
			spans = append(spans, config.Span{From: from + s.From, To: from + s.To})
		}
	}
	for _, m := range quotedValue.FindAllStringSubmatchIndex(line, -1) {
		from, to := m[4], m[5]
		if from < 0 {
			from, to = m[6], m[7]
		}
		add(line[m[2]:m[3]], from, to)
	}
	option := ""
	for _, m := range quotedWord.FindAllStringSubmatchIndex(line, -1) {
		from, to := m[2], m[3]
		if from < 0 {
			from, to = m[4], m[5]
		}
		add(option, from, to)
		if option = ""; strings.HasPrefix(line[from:to], "-") && !strings.Contains(line[from:to], "=") {
			option = line[from:to]
		}
	}
	slices.SortFunc(spans, func(a, b config.Span) int { return a.From - b.From })
	return spans
}
