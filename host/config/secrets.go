package config

import (
	"cmp"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"slices"
	"strings"
	"unicode"
)

// MinSecret is the length in bytes from which a secret is masked wherever it occurs.
// Masking shorter ones would make every text unreadable. They are masked only where their
// place is known (see [Config.Describe]), and there is a warning.
const MinSecret = 4

// publicVars are variables whose values everybody on the machine knows. Masking the home
// directory in every path of a log, for example, would hide much and protect nothing.
var publicVars = words(`HOME USER USERNAME LOGNAME USERPROFILE APPDATA LOCALAPPDATA PROGRAMFILES SYSTEMROOT
	PATH PWD SHELL TERM LANG TZ TMPDIR TEMP TMP HOSTNAME COMPUTERNAME NODE_ENV
	XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME XDG_RUNTIME_DIR`)

// plainWords are values that are never secrets.
var plainWords = words(`TRUE FALSE NULL NONE AUTO TRACE DEBUG INFO WARN WARNING ERROR DEFAULT LOCALHOST
	PRODUCTION DEVELOPMENT TEST OAUTH BASIC BEARER`)

// A name with one of secretWords is the name of a secret, unless it ends in one of
// aboutWords: API_KEY is one, API_KEY_FILE is not.
var (
	secretWords = words(`TOKEN SECRET SECRETS PASSWORD PASSWORDS PASSWD PASSPHRASE KEY APIKEY CREDENTIAL
		CREDENTIALS AUTH AUTHORIZATION BEARER PAT JWT COOKIE`)
	secretEnds = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY"}
	aboutWords = words(`FILE PATH DIR ID NAME URL URI TYPE TTL LENGTH SIZE LIMIT COUNT ENDPOINT ENABLED
		EXPIRY VERSION METHOD MODE`)
)

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// looksSecret reports whether a setting or variable with that name (GITHUB_TOKEN,
// --api-key, clientSecret) holds a secret.
func looksSecret(name string) bool {
	parts := nameWords(name)
	if len(parts) == 0 || aboutWords[parts[len(parts)-1]] {
		return false
	}
	for i, w := range parts {
		if secretWords[w] || w == "PWD" && i > 0 {
			return true
		}
		for _, end := range secretEnds {
			if strings.HasSuffix(w, end) {
				return true
			}
		}
	}
	return false
}

// nameWords splits a name into words in upper case, at separators and where upper case
// begins, and removes digits at the end of words.
func nameWords(name string) []string {
	var b strings.Builder
	var last rune
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(last) {
			b.WriteByte(' ')
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToUpper(r))
		last = r
	}
	parts := strings.Fields(b.String())
	for i, w := range parts {
		parts[i] = strings.TrimRight(w, "0123456789")
	}
	return slices.DeleteFunc(parts, func(w string) bool { return w == "" })
}

// secretVars returns the parts of a text that come from secret variables. If all is set,
// these are all variables except public ones; otherwise only those whose names look
// secret.
func secretVars(e expansion, all bool) []span {
	var spans []span
	for _, v := range e.vars {
		if v.from == v.to {
			continue
		}
		ordinary := publicVars[strings.ToUpper(v.name)] || plainWords[strings.ToUpper(e.text[v.from:v.to])]
		if looksSecret(v.name) || all && !ordinary {
			spans = append(spans, v.span)
		}
	}
	return spans
}

var (
	// scheme precedes a credential in an Authorization header.
	scheme = lazyregexp.New(`^(?i:bearer|basic|token)\s+`)
	// assignment is NAME=value, --option=value or Header: value.
	assignment = lazyregexp.New(`(?s)^([A-Za-z0-9_.-]+)\s*[=:]\s*(.+)$`)
	// urlPassword is the password in scheme://user:password@host.
	urlPassword = lazyregexp.New(`://[^/?#@:\s]*:([^/?#@\s]+)@`)
	// queryParam is name=value in the query of an address.
	queryParam = lazyregexp.New(`[?&]([A-Za-z0-9_.-]+)=([^&#\s]+)`)
)

// secretParts returns the parts of a value that are secret, judging by the value's name
// and by names within it: the value of a variable or option with a name such as
// GITHUB_TOKEN, the password in an address, a credential in a header.
func secretParts(name, text string) []span {
	if looksSecret(name) {
		return credential(text, 0)
	}
	var spans []span
	for _, m := range urlPassword.FindAllStringSubmatchIndex(text, -1) {
		spans = append(spans, span{m[2], m[3]})
	}
	for _, m := range queryParam.FindAllStringSubmatchIndex(text, -1) {
		if looksSecret(text[m[2]:m[3]]) {
			spans = append(spans, credential(text[m[4]:m[5]], m[4])...)
		}
	}
	// --header=Authorization: x has one assignment in another. Deeper nesting does not
	// occur.
	offset := 0
	for range 3 {
		m := assignment.FindStringSubmatchIndex(text[offset:])
		if m == nil {
			break
		}
		value := offset + m[4]
		if looksSecret(text[offset+m[2] : offset+m[3]]) {
			return append(spans, credential(text[value:], value)...)
		}
		offset = value
	}
	return spans
}

// credential returns the secret part of a value that begins at offset: all of it except a
// scheme such as Bearer.
func credential(value string, offset int) []span {
	from := len(scheme.FindString(value))
	if from == len(value) || plainWords[strings.ToUpper(value[from:])] {
		return nil
	}
	return []span{{offset + from, offset + len(value)}}
}

// sortSecrets returns the secrets of the list as a [Masker] needs them: the longest
// first, without duplicates and without short ones. Each line of a secret with several
// lines is added as a secret, because logs are written line by line.
func sortSecrets(found []string) []string {
	var list []string
	add := func(s string) {
		if len(s) >= MinSecret && strings.Trim(s, "*") != "" {
			list = append(list, s)
		}
	}
	for _, s := range found {
		add(s)
		add(strings.TrimSpace(s))
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); len(line) >= 2*MinSecret {
				add(line)
			}
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(list)
}
