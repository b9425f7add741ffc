package discover

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

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
