package discover

import (
	"cmp"
	"math"
	"slices"
	"strings"

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
