package discover

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/agnivade/levenshtein"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Tool is a tool in an Index.
type Tool struct {
	Server string // "" for no server
	Name   string // the server's own name of the tool
	// Definition is the raw MCP Tool object. The index uses the title, the description, and the
	// names of the arguments.
	Definition []byte
}

// Index finds tools by words. An Index is immutable and safe for concurrent use.
type Index struct {
	terms map[string][]posting // by stem, in the order of the tools
	vocab []string             // the stems, sorted
	exact map[string][]int32   // tools by name, reduced to letters and digits
	tools int
}

// posting is the weight of a stem in a tool, not counting how rare the stem is.
type posting struct {
	tool   int32
	weight float32
}

type field int

const (
	name field = iota
	title
	server
	description
	arguments
	fields
)

// fieldRules are the parameters of the fields in BM25F: weight is the value of one word in a field
// of average length, length reduces the value of words in longer fields (b in BM25), and most is
// the number of indexed words.
var fieldRules = [fields]struct {
	weight, length float64
	most           int
}{
	name:        {4, 0.4, 32},
	title:       {2.5, 0.4, 32},
	server:      {1.5, 0.2, 16},
	description: {1, 0.6, 300},
	arguments:   {0.5, 0.6, 64},
}

// pairWeight is the weight of two neighbouring parts of a name, written as one word, relative to
// the weight of a single part.
const pairWeight = 0.5

// saturation is k1 in BM25: the smaller, the less repeated words add.
const saturation = 1.2

// document is the definition of a tool, split into words.
type document struct {
	counts  map[string]*[fields]float64
	lengths [fields]float64
}

// NewIndex reads the definitions of tools, and keeps none of them. Results refer to the
// tools by their index in the slice.
func NewIndex(tools []Tool) *Index {
	x := &Index{terms: map[string][]posting{}, exact: map[string][]int32{}, tools: len(tools)}
	documents := make([]document, len(tools))
	var average [fields]float64
	for i, t := range tools {
		documents[i] = read(t)
		for f, n := range documents[i].lengths {
			average[f] += n / float64(len(tools))
		}
		x.addNames(int32(i), t)
	}
	for i, d := range documents {
		for term, counts := range d.counts {
			w := 0.0
			for f, n := range counts {
				if n > 0 {
					r := fieldRules[f]
					w += r.weight * n / (1 - r.length + r.length*d.lengths[f]/average[f])
				}
			}
			x.terms[term] = append(x.terms[term], posting{int32(i), float32(w)})
		}
	}
	x.vocab = make([]string, 0, len(x.terms))
	for term := range x.terms {
		x.vocab = append(x.vocab, term)
	}
	slices.Sort(x.vocab)
	return x
}

// addNames adds the spellings of a tool's whole name.
func (x *Index) addNames(i int32, t Tool) {
	own := strings.Join(words(t.Name, fieldRules[name].most), "")
	x.exact[own] = append(x.exact[own], i)
	if full := strings.Join(words(t.Server, fieldRules[server].most), "") + own; full != own {
		x.exact[full] = append(x.exact[full], i)
	}
}

func read(t Tool) document {
	d := document{counts: map[string]*[fields]float64{}}
	parts := words(t.Name, fieldRules[name].most)
	d.add(name, parts)
	for i := 1; i < len(parts); i++ {
		d.count(name, parts[i-1]+parts[i], pairWeight)
	}
	d.add(server, words(t.Server, fieldRules[server].most))
	text := func(f field, path ...string) {
		s, _ := wire.GetString(t.Definition, path...)
		d.add(f, words(s[:min(len(s), 16*fieldRules[f].most)], fieldRules[f].most))
	}
	text(title, "title")
	if d.lengths[title] == 0 {
		text(title, "annotations", "title")
	}
	text(description, "description")
	var all []string
	if schema, ok := wire.Get(t.Definition, "inputSchema"); ok {
		for _, n := range propertyNames(schema) {
			all = append(all, words(n, 8)...)
		}
	}
	d.add(arguments, all[:min(len(all), fieldRules[arguments].most)])
	return d
}

func (d *document) add(f field, found []string) {
	for _, w := range found {
		if !stopWords[w] || f == name {
			d.lengths[f]++
			d.count(f, w, 1)
		}
	}
}

func (d *document) count(f field, word string, times float64) {
	s := stem(word)
	c := d.counts[s]
	if c == nil {
		c = new([fields]float64)
		d.counts[s] = c
	}
	c[f] += times
}

// Hit is a result of a search. The tool is an index into the tools.
type Hit struct {
	Tool  int
	Score float64 // only comparable within one search
}

// exactScore is added to the score of a tool whose name is the query.
const exactScore = 1000

// singleWordFactor reduces the score of a tool with only one of many words, so that tools with more
// of the words come first.
const singleWordFactor = 0.4

// minRelativeScore is the part of the best score below which a match is taken to be
// accidental.
const minRelativeScore = 0.12

// Search returns the tools that match the query, best first; equal ones in the order of the index.
// Only tools for which keep returns true are considered; a nil keep accepts all.
func (x *Index) Search(query string, keep func(tool int) bool) []Hit {
	scores := map[int32]float64{}
	asked := words(query, maxQuery)
	terms := x.expand(asked)
	matched := map[int32]int{}
	for _, alternatives := range terms {
		best := map[int32]float64{}
		for _, a := range alternatives {
			for _, p := range x.terms[a.term] {
				w := float64(p.weight)
				best[p.tool] = max(best[p.tool], a.weight*w*(saturation+1)/(w+saturation))
			}
		}
		// The rarity belongs to the meaning, not to the word: a tool with "find" is not better than
		// others with "search".
		n := float64(len(best))
		rarity := math.Log(1 + (float64(x.tools)-n+0.5)/(n+0.5))
		for tool, score := range best {
			scores[tool] += score * rarity
			matched[tool]++
		}
	}
	for tool, n := range matched {
		scores[tool] *= singleWordFactor + (1-singleWordFactor)*float64(n)/float64(len(terms))
	}
	for _, tool := range x.exact[strings.Join(asked, "")] {
		scores[tool] += exactScore
	}
	hits := make([]Hit, 0, len(scores))
	top := 0.0
	for tool, score := range scores {
		if keep == nil || keep(int(tool)) {
			hits = append(hits, Hit{int(tool), score})
			if score < exactScore {
				top = max(top, score)
			}
		}
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Score < minRelativeScore*top })
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Tool, b.Tool))
	})
	return hits
}

// maxQuery is the number of used words of a query.
const maxQuery = 32

// maxAlternatives limits the number of indexed words that a word of a query can mean.
const maxAlternatives = 24

// The weights of indexed words that differ from the words of the query.
const (
	synonymWeight = 0.5
	prefixWeight  = 0.7 // times the matching fraction of the longer word
	typoWeight    = 0.5
)

// alternative is an indexed stem that a word of a query can mean.
type alternative struct {
	term   string
	weight float64
}

// expand returns the alternatives of each word of a query. A word without any has an empty
// list. Words with the same meaning ("create a new") are combined.
func (x *Index) expand(asked []string) [][]alternative {
	telling := slices.DeleteFunc(slices.Clone(asked), func(w string) bool { return stopWords[w] })
	if len(telling) == 0 {
		telling = asked
	}
	var all [][]alternative
	seen := map[string]bool{}
	meaning := map[string]int{} // index in all, by the synonyms
	for i, w := range telling {
		s := stem(w)
		if seen[s] {
			continue
		}
		seen[s] = true
		alternatives := x.alternatives(s)
		if i+1 < len(telling) { // finds webhook for "web hook"
			alternatives = x.joinedWords(alternatives, w, telling[i+1])
		}
		if i > 0 {
			alternatives = x.joinedWords(alternatives, telling[i-1], w)
		}
		if same, ok := meaning[s]; ok {
			all[same] = append(all[same], alternatives...)
			continue
		}
		for _, other := range synonyms[s] {
			meaning[other] = len(all)
		}
		all = append(all, alternatives)
	}
	return all
}

func (x *Index) joinedWords(alternatives []alternative, a, b string) []alternative {
	pair := stem(a + b)
	if _, ok := x.terms[pair]; ok {
		return append(alternatives, alternative{pair, 1})
	}
	return alternatives
}

// alternatives returns the stems that s can mean: s itself, synonyms, longer and shorter words.
// Without any, alternatives returns words that differ by a typo.
func (x *Index) alternatives(s string) []alternative {
	found := map[string]float64{}
	add := func(term string, weight float64) {
		if _, ok := x.terms[term]; ok {
			found[term] = max(found[term], weight)
		}
	}
	add(s, 1)
	for _, other := range synonyms[s] {
		add(other, synonymWeight)
	}
	if len(s) >= 3 {
		from, _ := slices.BinarySearch(x.vocab, s)
		for _, term := range x.vocab[from:] {
			if !strings.HasPrefix(term, s) {
				break
			}
			add(term, prefixWeight*float64(len(s))/float64(len(term)))
		}
	}
	for n := len(s) - 1; n >= 4 && 2*n >= len(s); n-- {
		add(s[:n], prefixWeight*float64(n)/float64(len(s)))
	}
	if _, known := x.terms[s]; len(found) == 0 || !known && len(s) >= 6 {
		x.typos(s, add)
	}
	list := make([]alternative, 0, len(found))
	for term, weight := range found {
		list = append(list, alternative{term, weight})
	}
	slices.SortFunc(list, func(a, b alternative) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.term, b.term))
	})
	return list[:min(len(list), maxAlternatives)]
}

// typos calls add for words that differ from s by a single letter, or by two if s is long.
func (x *Index) typos(s string, add func(term string, weight float64)) {
	most := 0
	switch {
	case len(s) >= 6:
		most = 2 // two swapped letters count as two
	case len(s) >= 4:
		most = 1
	}
	if most == 0 {
		return
	}
	for _, term := range x.vocab {
		if d := len(term) - len(s); d > most || -d > most || len(term) < 3 {
			continue
		}
		if d := levenshtein.ComputeDistance(s, term); d <= most {
			add(term, typoWeight/float64(d))
		}
	}
}

// words splits text into at most most lower-case words, at everything except letters and digits,
// and within camelCase ("listOpenPRs" is list, open, prs). In writing systems without spaces
// between words, each character is a word.
func words(text string, most int) []string {
	var found []string
	var word []rune
	end := func() {
		if len(word) > 0 && len(found) < most {
			found = append(found, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	runes := []rune(text)
	for i, r := range runes {
		if len(found) >= most {
			break
		}
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end()
			word = append(word, r)
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && startsHump(runes, i):
			end()
		}
		if len(word) < maxWord {
			word = append(word, r)
		}
	}
	end()
	return found
}

// maxWord is the number of used letters of a word.
const maxWord = 40

// startsHump reports whether a word starts at the upper-case letter runes[i], which follows
// a letter or digit: after a lower-case letter, or as the last of several capitals if a
// word follows, not just a plural s.
func startsHump(runes []rune, i int) bool {
	if !unicode.IsUpper(runes[i-1]) {
		return true
	}
	lower := func(j int) bool { return j < len(runes) && unicode.IsLower(runes[j]) }
	return lower(i+1) && (runes[i+1] != 's' || lower(i+2))
}

// stem removes the endings of an English word, so "searches" and "searching" become "search". The
// result need not be a word.
func stem(w string) string {
	if strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return w
	}
	w = singular(w)
	switch rest := ""; {
	case strings.HasSuffix(w, "ing") && len(w) > 5:
		rest = w[:len(w)-3]
		w = verb(w, rest)
	case strings.HasSuffix(w, "ed") && len(w) > 4 && w[len(w)-3] != 'e':
		rest = w[:len(w)-2]
		w = verb(w, rest)
	}
	if len(w) > 4 && w[len(w)-1] == 'e' {
		w = w[:len(w)-1]
	}
	return w
}

func singular(w string) string {
	n := len(w)
	switch {
	case n < 3 || w[n-1] != 's' || strings.HasSuffix(w, "ss") || strings.HasSuffix(w, "us") || strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "ies") && n > 4:
		return w[:n-3] + "y"
	case n > 4 && (strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes") || strings.HasSuffix(w, "xes")):
		return w[:n-2]
	}
	return w[:n-1]
}

// verb returns rest, which is w without the ending, if rest can be a verb. A doubled consonant
// becomes a single one ("running").
func verb(w, rest string) string {
	n := len(rest)
	switch {
	case !strings.ContainsAny(rest, "aeiouy"):
		return w
	case n > 3 && rest[n-1] == rest[n-2] && !strings.ContainsRune("lsz", rune(rest[n-1])):
		return rest[:n-1]
	}
	return rest
}

// stopWords say nothing about the purpose of a tool.
var stopWords = setOf("a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from", "how", "i",
	"in", "into", "is", "it", "its", "me", "my", "need", "of", "on", "or", "please", "that", "the", "their", "this",
	"to", "tool", "tools", "use", "using", "want", "what", "which", "with", "you", "your")

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}

// synonymGroups are words with nearly the same meaning in tool names. A tool found by a synonym
// ranks below a tool with the word itself.
var synonymGroups = [][]string{
	{"create", "add", "new", "make"},
	{"delete", "remove", "erase", "destroy"},
	{"search", "find", "query", "lookup"},
	{"get", "fetch", "read", "retrieve", "show", "view"},
	{"list", "enumerate", "browse"},
	{"update", "edit", "modify", "change"},
	{"send", "post"},
	{"execute", "run", "exec"},
	{"rename", "move"},
	{"directory", "folder", "dir"},
	{"repository", "repo"},
	{"pr", "pull"},
	{"message", "msg"},
	{"email", "mail"},
	{"image", "picture", "photo"},
	{"document", "doc"},
	{"ticket", "issue", "bug"},
	{"config", "configuration", "setting"},
	{"user", "member", "person", "people"},
	{"database", "db"},
	{"weather", "forecast"},
}

// synonyms maps a stem to the other stems in the same group.
var synonyms = func() map[string][]string {
	all := map[string][]string{}
	for _, group := range synonymGroups {
		for _, word := range group {
			for _, other := range group {
				if s, o := stem(word), stem(other); s != o && !slices.Contains(all[s], o) {
					all[s] = append(all[s], o)
				}
			}
		}
	}
	return all
}()
