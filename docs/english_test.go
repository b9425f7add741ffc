package docs

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What TestEnglish accepts in comments and documents. Lower these bounds; never raise them.
const (
	maxVague    = 240 // uses of vague words in all
	maxPronouns = 3.5 // percent of the words of comments in host, without those of tests
)

var (
	// vague words stand for a person or a time that the sentence should name.
	vague = regexp.MustCompile(`(?i)\b(nobody|somebody|any more|beside|whoever)\b`)
	// pronouns stand for a noun that the sentence should repeat.
	pronouns = regexp.MustCompile(`(?i)\b(what|that|it|its|there|those|others|whose|one|such)\b`)
	words    = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
)

// TestEnglish counts the words of comments and documents that make a reader look for a noun.
// scripts/english prints the counts by folder.
func TestEnglish(t *testing.T) {
	counts, err := countEnglish("..")
	if err != nil {
		t.Fatal(err)
	}
	var all, host english
	for _, place := range slices.Sorted(maps.Keys(counts)) {
		c := counts[place]
		all.add(c)
		if strings.HasPrefix(place, "host") {
			host.add(c)
		}
		t.Logf("%-28s %v", place, c)
	}
	t.Logf("%-28s %v", "comments in host", host)
	t.Logf("%-28s %v", "all", all)
	if all.vague > maxVague {
		t.Errorf("%d uses of nobody, somebody, any more, beside and whoever, more than %d: name the person or the time", all.vague, maxVague)
	}
	if percent := host.percent(); percent > maxPronouns {
		t.Errorf("%.1f %% of the words of comments in host are pronouns, more than %.1f %%: name the noun", percent, maxPronouns)
	}
}

// english counts words.
type english struct{ words, vague, pronouns int }

func (e *english) add(other english) {
	e.words += other.words
	e.vague += other.vague
	e.pronouns += other.pronouns
}

func (e *english) count(text string) {
	e.add(english{len(words.FindAllString(text, -1)), len(vague.FindAllString(text, -1)), len(pronouns.FindAllString(text, -1))})
}

func (e english) percent() float64 { return 100 * float64(e.pronouns) / float64(max(1, e.words)) }

func (e english) String() string {
	return fmt.Sprintf("%7d words, %4d vague, %5.1f %% pronouns", e.words, e.vague, e.percent())
}

// countEnglish counts the comments of Go files by folder, and each document.
func countEnglish(root string) (map[string]english, error) {
	counts := map[string]english{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") && name != root {
				return fs.SkipDir
			}
			return nil
		}
		place, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		place = filepath.ToSlash(place)
		var text string
		switch filepath.Ext(name) {
		case ".md":
			raw, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = string(raw)
		case ".go":
			if place == "docs/english_test.go" {
				return nil
			}
			test := strings.HasSuffix(place, "_test.go")
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, c := range f.Comments {
				text += c.Text() + "\n"
			}
			if place = filepath.ToSlash(filepath.Dir(place)); test {
				place = "tests of " + place
			}
		default:
			return nil
		}
		c := counts[place]
		c.count(text)
		counts[place] = c
		return nil
	})
	return counts, err
}
