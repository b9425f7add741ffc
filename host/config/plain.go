package config

// PlainSecrets returns the parts of a text that are secrets in plain text, judging by names:
// that of the text itself (a variable, a header or an option; "" for none), and those in
// it, such as the password in an address. A ${VAR} is not in plain text.
func PlainSecrets(name, text string) []Span {
	var spans []Span
	for _, s := range secretParts(name, text) {
		if !hasVariable(text[s.from:s.to]) {
			spans = append(spans, Span{s.from, s.to})
		}
	}
	return spans
}

// hasVariable reports whether a text contains a variable or a reference.
func hasVariable(text string) bool {
	e, errs := expand(text, func(string) (string, bool) { return "x", true })
	return len(errs) > 0 || len(e.vars) > 0 || len(e.refs) > 0
}

// LooksSecret reports whether a setting or variable with that name, such as GITHUB_TOKEN,
// --api-key or clientSecret, holds a secret.
func LooksSecret(name string) bool { return looksSecret(name) }
