package clientconfig

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Secret is a secret in plain text in the entry of a server.
type Secret struct {
	// Variable is the name of the environment variable for the secret.
	Variable string
	// Where is the place of the secret, for messages: env.GITHUB_TOKEN, args[2],
	// headers.Authorization, url.
	Where string
	// Value is the secret itself, and must not be shown.
	Value string
	// Guess means that only the form of the text looks like a secret.
	Guess bool

	from, to int
	text     *string // contains the secret
}

// Secrets returns the secrets in plain text of a server, judging by names and by the form of the
// values. taken has the values of variables in use; Secrets adds the new variables, so that no
// variable gets two values. The result refers to s.
func (s *Server) Secrets(taken map[string]string) []Secret {
	var found []Secret
	look := func(where, name, variable string, text *string) {
		spans, guess := config.PlainSecrets(name, *text), false
		if len(spans) == 0 {
			spans, guess = secretForms(*text), true
		}
		for _, span := range spans {
			value := (*text)[span.From:span.To]
			found = append(found, Secret{
				Variable: s.variable(variable, value, taken), Where: where, Value: strings.ReplaceAll(value, "$${", "${"),
				Guess: guess, from: span.From, to: span.To, text: text,
			})
		}
	}
	for i := range s.Env {
		look("env."+s.Env[i].Name, s.Env[i].Name, s.Env[i].Name, &s.Env[i].Value)
	}
	option := ""
	for i := range s.Args {
		variable := s.Name + "_" + cmp.Or(strings.TrimLeft(option, "-"), "secret")
		if name, _, ok := strings.Cut(s.Args[i], "="); ok && strings.HasPrefix(name, "-") {
			variable = s.Name + "_" + strings.TrimLeft(name, "-")
		}
		look("args", option, variable, &s.Args[i])
		if option = ""; strings.HasPrefix(s.Args[i], "-") && !strings.Contains(s.Args[i], "=") {
			option = s.Args[i]
		}
	}
	look("url", "", s.Name+"_secret", &s.URL)
	for i := range s.Headers {
		h := &s.Headers[i]
		variable := s.Name + "_" + strings.TrimPrefix(strings.ToLower(h.Name), "x-")
		if strings.EqualFold(h.Name, "Authorization") {
			variable = s.Name + "_token"
		}
		look("headers."+h.Name, h.Name, variable, &h.Value)
	}
	return found
}

// variable returns the name of the variable for a secret: the suggested name, or, if another secret
// has the name, the name with the server's name or a number.
func (s *Server) variable(suggested, value string, taken map[string]string) string {
	name := VariableName(suggested)
	if had, ok := taken[name]; ok && had != value && !s.Owns(name) {
		name = VariableName(s.Name) + "_" + name
	}
	for base, i := name, 2; ; i++ {
		if had, ok := taken[name]; !ok || had == value {
			taken[name] = value
			return name
		}
		name = fmt.Sprintf("%s_%d", base, i)
	}
}

// reference begins a variable or a name in the keyring, in a text of our configuration.
var reference = lazyregexp.New(`\$\{(?:keyring:)?([A-Za-z0-9_./-]+)`)

// References returns the names of the variables, and of the secrets in the keyring, in a text of
// the product's configuration. Some can be in comments.
func References(text string) []string {
	var names []string
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// Uses returns the names in the server's references; see [References].
func (s *Server) Uses() []string { return References(strings.Join(s.texts(), "\n")) }

func (s *Server) texts() []string {
	texts := slices.Concat([]string{s.Command, s.Dir, s.URL}, s.Args)
	for _, setting := range slices.Concat(s.Env, s.Headers) {
		texts = append(texts, setting.Value)
	}
	return texts
}

// needed is a variable without a default, in a text of our configuration.
var needed = lazyregexp.New(`(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Needs returns the variables without a default in the server's references.
func (s *Server) Needs() []string {
	var names []string
	for _, m := range needed.FindAllStringSubmatch(strings.Join(s.texts(), "\n"), -1) {
		if m[1] == "" && !slices.Contains(names, m[2]) {
			names = append(names, m[2])
		}
	}
	return names
}

// fetch matches a reference to a command, a file or the keyring in a text of the product's
// configuration.
var fetch = lazyregexp.New(`(\$?)\$\{(cmd|file|keyring):([^}]*)\}`)

// Fetches returns the references that are fetched at the start of the server: the output of
// commands, files and secrets in the keyring. Only a file in the form of the product's
// configuration, or Windsurf's own, has such references.
func (s *Server) Fetches() []config.Reference {
	var list []config.Reference
	for _, text := range s.texts() {
		for _, m := range fetch.FindAllStringSubmatch(text, -1) {
			r := config.Reference{Kind: config.ReferenceKind(m[2]), Text: m[3]}
			if m[1] == "" && !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
	}
	return list
}

// Owns reports whether a variable's name contains the name of the server, as WEATHER_API_KEY
// contains weather.
func (s *Server) Owns(variable string) bool {
	return strings.HasPrefix(variable, VariableName(s.Name)+"_")
}

// Replace puts references in place of secrets of s, which Secrets has returned. reference makes the
// text of a reference, such as ${NAME}.
func (s *Server) Replace(secrets []Secret, reference func(Secret) string) {
	for _, secret := range slices.Backward(secrets) { // from the end, to keep offsets right
		text := *secret.text
		*secret.text = text[:secret.from] + reference(secret) + text[secret.to:]
	}
}

// knownForms are the forms of tokens of well-known services, and of other credentials.
var knownForms = lazyregexp.New(`(?:` + strings.Join([]string{
	`gh[opsur]_[A-Za-z0-9]{20,}`, `github_pat_[A-Za-z0-9_]{20,}`, `glpat-[A-Za-z0-9_-]{16,}`,
	`sk-[A-Za-z0-9_-]{20,}`, `[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`, `xox[abeoprs]-[A-Za-z0-9-]{10,}`, `xapp-[A-Za-z0-9-]{10,}`,
	`(?:AKIA|ASIA)[A-Z0-9]{16}`, `AIza[A-Za-z0-9_-]{30,}`, `ya29\.[A-Za-z0-9_-]{20,}`, `npm_[A-Za-z0-9]{30,}`, `pypi-[A-Za-z0-9_-]{30,}`,
	`hf_[A-Za-z0-9]{20,}`, `ntn_[A-Za-z0-9]{20,}`, `secret_[A-Za-z0-9]{20,}`, `lin_api_[A-Za-z0-9]{20,}`, `dop_v1_[a-f0-9]{40,}`,
	`tvly-[A-Za-z0-9-]{16,}`, `fc-[a-f0-9]{30,}`, `figd_[A-Za-z0-9_-]{20,}`, `SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,
	`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`, `-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+`,
}, "|") + `)`)

// randomWord is a stretch of text that could be random.
var randomWord = lazyregexp.New(`[A-Za-z0-9+/_=-]{20,}`)

// inPath matches a text that ends within the path of a file, in a name with a dot or with
// backslashes, which are in no randomWord: /home/first.last/x.
var inPath = lazyregexp.New(`(?:^|[\s=,;"'])(?:/|~/|\.{1,2}[/\\]|[A-Za-z]:[/\\])[^\s=,;:?&#"']*$`)

// secretForms returns the parts of a text that have the form of secrets.
func secretForms(text string) []config.Span {
	var spans []config.Span
	for _, m := range knownForms.FindAllStringIndex(text, -1) {
		spans = append(spans, config.Span{From: m[0], To: m[1]})
	}
	if spans != nil {
		return spans
	}
	for _, m := range randomWord.FindAllStringIndex(text, -1) {
		before, word := text[:m[0]], text[m[0]:m[1]]
		digest := strings.HasSuffix(before, "sha256:") || strings.HasSuffix(before, "sha512:") || strings.HasSuffix(before, "@")
		if !digest && !strings.HasSuffix(before, "${") && !inPath.MatchString(before) && looksRandom(word) {
			spans = append(spans, config.Span{From: m[0], To: m[1]})
		}
	}
	return spans
}

// looksRandom reports whether a word has so many different characters, of several kinds and mixed,
// that no person has written the word. Names, paths and identifiers with hyphens do not.
func looksRandom(word string) bool {
	if strings.Count(word, "/") > 1 || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "-") {
		return false
	}
	digits, letters, changes := 0, 0, 0
	kind, count := 0, map[rune]int{}
	for _, r := range word {
		k := 0
		switch {
		case r >= '0' && r <= '9':
			k = 1
			digits++
		case r >= 'A' && r <= 'Z':
			k = 2
			letters++
		case r >= 'a' && r <= 'z':
			k = 3
			letters++
		}
		if k != kind {
			changes++
		}
		kind = k
		count[r]++
	}
	if isUUID(word) || digits < 2 || letters < 2 || changes*4 < len(word) {
		return false
	}
	entropy := 0.0
	for _, n := range count {
		p := float64(n) / float64(len(word))
		entropy -= p * math.Log2(p)
	}
	return entropy >= 3.2
}

var uuid = lazyregexp.New(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// isUUID reports whether a word is a UUID, which usually is an identifier.
func isUUID(word string) bool { return uuid.MatchString(word) }

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
