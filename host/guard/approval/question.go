package approval

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Question is the text for people about a call that needs an approval. All texts may be hostile
// except Rule and Reason. Arguments are redacted.
type Question struct {
	Kind   policy.Kind `json:"kind"`
	Server string      `json:"server"` // policy.Request.Server
	Name   string      `json:"name"`   // policy.Request.Name
	// Description is the tool's description by its server.
	Description string    `json:"description,omitempty"`
	Arguments   Arguments `json:"arguments"`
	Rule        string    `json:"rule"`
	Reason      string    `json:"reason,omitempty"`
	Client      string    `json:"client,omitempty"` // policy.Caller.Client
	Token       bool      `json:"token,omitempty"`  // Client is the name of a token
	Script      string    `json:"script,omitempty"` // policy.Caller.Script
	Run         string    `json:"run,omitempty"`    // id
	Session     string    `json:"session,omitempty"`
	// Digest is the digest of the Subject, and so covers the arguments as they are sent.
	Digest string `json:"digest"`
	// RememberFor is how long the decision can be remembered; 0: not at all.
	RememberFor time.Duration `json:"-"`
}

// Arguments is a raw JSON object.
type Arguments []byte

// MarshalJSON returns the object, or null.
func (a Arguments) MarshalJSON() ([]byte, error) {
	if a == nil {
		return []byte("null"), nil
	}
	return a, nil
}

// UnmarshalJSON copies the object.
func (a *Arguments) UnmarshalJSON(raw []byte) error {
	*a = append(Arguments(nil), raw...)
	return nil
}

// maxKept bounds the arguments that are kept for people, in bytes. No person can judge longer
// arguments by reading, and a queue full of them would fill the disk.
const maxKept = 256 << 10

// question returns the question about a call.
func (a *Approver) question(ask route.Asking, s Settings, digest string) Question {
	r, c := ask.Request, ask.Request.Caller
	q := Question{
		Kind: r.Kind, Server: r.Server, Name: r.Name, Rule: ask.Decision.Rule, Reason: ask.Decision.Reason,
		Client: c.Client, Token: c.Token, Script: c.Script, Run: c.Run, Session: c.Session,
		Digest: digest, RememberFor: s.Remember,
	}
	q.Description, _ = wire.GetString(r.Definition, "description")
	q.Description, _ = clip(q.Description, maxDescription)
	q.Client, _ = clip(q.Client, maxName)
	arguments, err := canonical(r.Arguments, false) // subject has read the same arguments before
	if err == nil {
		q.Arguments = a.opts.Redact(arguments)
	}
	if len(q.Arguments) > maxKept {
		q.Arguments = wire.Marshal(map[string]string{"(too large to show)": fmt.Sprintf("%d bytes", len(arguments))})
	}
	return q
}

// maxDescription bounds the part of a tool's description that is kept, in characters.
const maxDescription = 500

// Target returns the name of the call's target in rules.
func (q Question) Target() string { return policy.Request{Server: q.Server, Name: q.Name}.Target() }

// Caller names the caller, with foreign names in code spans.
func (q Question) Caller() string {
	client := "a client without a token"
	switch {
	case q.Token:
		client = "the client with the token " + asName(q.Client)
	case q.Client != "":
		client = "a client that calls itself " + asName(q.Client)
	}
	if q.Script == "" {
		return client
	}
	return "a script, " + asName(q.Script) + ", for " + client
}

// maxWhole is the length of the longest name in a question, in bytes. Questions have the whole
// name, and an escape has up to six characters for a byte.
const maxWhole = 2000

// heading returns the first line of the question: the kind and the name of the target.
func (q Question) heading() string {
	name := quote(ascii(q.Name), 6*maxWhole)
	switch {
	case q.Kind == policy.KindResource:
		return fmt.Sprintf("Resource: %s of the server %s", quote(q.Name, 6*maxWhole), asName(q.Server))
	case q.Kind == policy.KindPrompt:
		return fmt.Sprintf("Prompt: %s of the server %s", name, asName(q.Server))
	case q.Kind == policy.KindCompletion, q.Kind == policy.KindMethod:
		return fmt.Sprintf("Request: %s %s of the server %s", q.Kind, quote(q.Name, 6*maxWhole), asName(q.Server))
	case q.Server == policy.SavedTools:
		return "Saved tool: " + name
	case q.Server == policy.BuiltinTools:
		return "Built-in tool: " + name
	}
	return fmt.Sprintf("Tool: %s of the server %s", name, asName(q.Server))
}

// Text returns the question for people, in lines. Each foreign text is a code span.
func (q Question) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "May this call be made?\n\n%s\n", q.heading())
	fmt.Fprintf(&b, "Called by: %s\n", q.Caller())
	q.arguments(&b)
	fmt.Fprintf(&b, "Asked because of the rule %s", quote(q.Rule, maxName))
	if q.Reason != "" {
		fmt.Fprintf(&b, ": %s", quote(q.Reason, maxReason))
	}
	// The digest makes two questions differ even if their calls are shown alike.
	fmt.Fprintf(&b, "\nDigest of the call: %s", q.Digest[:digestShown])
	return b.String()
}

// digestShown is how much of a digest is shown, in hex digits.
const digestShown = 16

// Bounds of the arguments in a question.
const (
	maxMembers    = 24
	maxMember     = 600  // characters of a value
	maxCharacters = 3000 // of all values
)

// arguments adds the arguments, each on its own line.
func (q Question) arguments(b *strings.Builder) {
	members := lines(q.Arguments)
	if len(members) == 0 {
		b.WriteString("Arguments: none\n")
		return
	}
	b.WriteString("Arguments:\n")
	left, whole := maxCharacters, true
	for i, m := range members {
		if i == maxMembers || left <= 0 {
			fmt.Fprintf(b, "- and %d more\n", len(members)-i)
			whole = false
			break
		}
		value, all := span(string(m.Value), min(maxMember, left))
		name, full := span(m.Name, maxName)
		fmt.Fprintf(b, "- %s%s: %s\n", name, m.item, value)
		left -= len(value)
		whole = whole && all && full
	}
	if !whole {
		fmt.Fprintf(b, "NOT ALL OF THE ARGUMENTS ARE SHOWN: they have %d bytes.\n", len(q.Arguments))
	}
}

// line is a shown part of the arguments: a member, or an item of a list.
type line struct {
	wire.Member
	item string // which item; "" for the whole value
}

// lines returns the lines for an object. A long list has a line for each item, so that people see
// more items.
func lines(arguments []byte) (all []line) {
	members, _ := wire.Members(arguments)
	for _, m := range members {
		items, err := wire.Elements(m.Value)
		if err != nil || len(m.Value) <= maxMember {
			all = append(all, line{m, ""})
			continue
		}
		for i, item := range items {
			all = append(all, line{wire.Member{Name: m.Name, Value: item}, fmt.Sprintf(" (%d of %d)", i+1, len(items))})
		}
	}
	return all
}

// remembering says how long a decision is remembered.
func (q Question) remembering() string { return units.FormatDuration(q.RememberFor) }

// Bounds of foreign texts that are shown, in characters.
const (
	maxName   = 128
	maxTarget = 300
	maxNote   = 300
	maxReason = 300
)

// plain returns foreign text as a line of plain characters, which no reader takes for text of the
// proxy. Characters that are invisible, change the direction of text, end a line or a code span, or
// only look like a space become escapes, and long gaps are counted. The escapes are the escapes of
// JSON where JSON has one, so the value of JSON stays the same.
func plain(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == ' ':
			if gap := len(text[i:]) - len(strings.TrimLeft(text[i:], " ")); gap > maxGap {
				fmt.Fprintf(&b, ` (%d spaces) `, gap)
				size = gap
			} else {
				b.WriteByte(' ')
			}
		case isPlain(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// maxGap is the longest row of spaces that is shown as spaces. A longer row could push the
// following text out of sight.
const maxGap = 8

// isPlain reports whether a character is shown without an escape.
func isPlain(r rune) bool {
	switch {
	case r == '`': // would end the code span
		return false
	case r < utf8.RuneSelf:
		return r >= ' ' && r != 0x7f
	case unicode.In(r, unicode.Mn, unicode.Me): // drawn over other characters
		return false
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), unicode.Is(unicode.Variation_Selector, r), r == '\u2800', r == '\u3164', r == '\uffa0':
		return false // letters and symbols without a shape
	}
	return strconv.IsGraphic(r) && !unicode.Is(unicode.Zs, r)
}

// clip shortens text to n characters: the beginning and the end remain, with the number of missing
// characters between. whole is false then.
func clip(text string, n int) (_ string, whole bool) {
	count := utf8.RuneCountInString(text)
	if count <= n {
		return text, true
	}
	runes := []rune(text)
	head, tail := n*3/4, n/4
	return string(runes[:head]) + fmt.Sprintf(" … (%d characters are not shown) … ", count-head-tail) + string(runes[count-tail:]), false
}

// quote returns the beginning of a foreign text in a code span, so that readers of Markdown find no
// markup in the text.
func quote(text string, n int) string {
	shown, _ := span(text, n)
	return shown
}

// span is quote, and reports whether all of the text is shown.
func span(text string, n int) (_ string, whole bool) {
	var shown string
	if len(text) > 64*n { // so long texts are cheap
		head, tail := []rune(plain(text[:cutAt(text, 32*n)])), []rune(plain(text[cutAt(text, len(text)-32*n):]))
		shown = string(head[:min(len(head), n*3/4)]) + fmt.Sprintf(" … (%d bytes in all) … ", len(text)) + string(tail[max(0, len(tail)-n/4):])
	} else {
		shown, whole = clip(plain(text), n)
	}
	if shown == "" || shown[0] == ' ' || shown[len(shown)-1] == ' ' {
		shown = `"` + shown + `"`
	}
	return "`" + shown + "`", whole
}

// cutAt returns the first offset from n on at which a character begins.
func cutAt(text string, n int) int {
	for n < len(text) && !utf8.RuneStart(text[n]) {
		n++
	}
	return n
}

// quoteNote is quote for the note of a person; "" stays empty.
func quoteNote(note string) string {
	if note == "" {
		return ""
	}
	return quote(note, maxNote)
}

// asName returns the beginning of the name of a server, script or client in a code span. Names in
// other scripts than ASCII are escaped, since two letters may look alike.
func asName(name string) string { return quote(ascii(name), maxName) }

func ascii(name string) string {
	quoted := strconv.QuoteToASCII(name)
	return quoted[1 : len(quoted)-1]
}
