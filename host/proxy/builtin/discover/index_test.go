package discover

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestRanking searches a catalogue as agents do. The expected tools must come first, in
// order; those after "|" must be among the first five.
func TestRanking(t *testing.T) {
	tools, names := readCatalogue()
	index := NewIndex(tools)
	for query, want := range map[string]string{
		// words of the name, in any form
		"search issues":                 "github.search_issues",
		"issue search":                  "github.search_issues",
		"searching for an issue":        "github.search_issues",
		"create issue":                  "github.create_issue",
		"create a new issue on github":  "github.create_issue",
		"get_file_contents":             "github.get_file_contents",
		"list tables":                   "db.list-tables",
		"free slots":                    "calendar.findFreeSlots",
		"calendar events":               "| calendar.listEvents calendar.createEvent",
		"http link":                     "calendar.getHTTPLinkForEvent",
		"listevents":                    "calendar.listEvents",
		"github__search_code":           "github.search_code",
		"slack.slack_post_message":      "slack.slack_post_message",
		"query":                         "db.query",
		"knowledge graph":               "| memory.read_graph memory.search_nodes",
		"read the whole graph":          "memory.read_graph",
		"web hook":                      "web.registerWebhook",
		"how can I merge pull requests": "github.merge_pull_request",
		// words of the description or the arguments
		"sql":             "| db.query db.execute",
		"rename a file":   "filesystem.move_file",
		"emoji":           "slack.slack_add_reaction",
		"longitude":       "weather.get_forecast",
		"base64 image":    "filesystem.read_media_file",
		"thread reply":    "slack.slack_reply_to_thread",
		"mentions":        "github.list_notifications",
		"diff":            "filesystem.edit_file",
		"commit history":  "| github.list_commits",
		"slack messages":  "| slack.slack_post_message slack.slack_get_channel_history",
		"repo":            "| github.fork_repository github.search_repositories",
		"open a PR":       "github.create_pull_request",
		"PRs":             "| github.list_pull_requests github.merge_pull_request",
		"changed files":   "github.get_pull_request_files",
		"markdown of url": "web.fetch",
		// other words for the same
		"make folder":       "filesystem.create_directory",
		"remove entities":   "memory.delete_entities",
		"find repositories": "github.search_repositories",
		"send message":      "slack.slack_post_message",
		"picture of a page": "web.screenshot",
		"members of slack":  "| slack.slack_get_users",
		// typos
		"serach isues":   "github.search_issues",
		"directry tree":  "filesystem.directory_tree",
		"forcast":        "weather.get_forecast",
		"pul requets":    "| github.merge_pull_request github.list_pull_requests",
		"screensot":      "web.screenshot",
		"notificatons":   "github.list_notifications",
		"calender event": "| calendar.createEvent calendar.listEvents",
		// parts of words
		"notif":  "github.list_notifications",
		"screen": "web.screenshot",
		// nothing
		"zebra": "", "": "", "?!": "", "the a of": "",
	} {
		t.Run(query, func(t *testing.T) {
			var got []string
			for _, h := range index.Search(query, nil) {
				got = append(got, names[h.Tool])
			}
			first, among, _ := strings.Cut(want, "|")
			if want == "" && len(got) > 0 {
				t.Errorf("found %q", got)
			}
			if n := strings.Fields(first); len(got) < len(n) || !slices.Equal(got[:len(n)], n) {
				t.Errorf("got %q, want %s first", got[:min(5, len(got))], want)
			}
			for _, name := range strings.Fields(among) {
				if !slices.Contains(got[:min(5, len(got))], name) {
					t.Errorf("got %q, want %s among them", got[:min(5, len(got))], name)
				}
			}
		})
	}
}

func TestSearchKeepsOnlyWhatIsWanted(t *testing.T) {
	tools, names := readCatalogue()
	hits := NewIndex(tools).Search("create file", func(i int) bool { return tools[i].Server == "filesystem" })
	if len(hits) == 0 || names[hits[0].Tool] != "filesystem.write_file" {
		t.Errorf("hits = %v", hits)
	}
	for _, h := range hits {
		if tools[h.Tool].Server != "filesystem" {
			t.Errorf("found %s", names[h.Tool])
		}
	}
}

// TestSameOrderEachTime searches among many tools of the same rank.
func TestSameOrderEachTime(t *testing.T) {
	var tools []Tool
	for i := range 300 {
		tools = append(tools, tool("s", fmt.Sprintf("get_thing_%d", i%7), "Gets a thing", "id"))
	}
	first := NewIndex(tools).Search("get thing", nil)
	if len(first) != 300 || !slices.IsSortedFunc(first[:10], func(a, b Hit) int { return a.Tool - b.Tool }) {
		t.Errorf("%d hits: %v", len(first), first[:min(10, len(first))])
	}
	for range 20 {
		if again := NewIndex(tools).Search("get thing", nil); !slices.Equal(again, first) {
			t.Fatalf("got %v, then %v", first[:5], again[:5])
		}
	}
}

// TestOddDefinitions checks that a tool can be found by name, whatever its definition is.
func TestOddDefinitions(t *testing.T) {
	for _, definition := range []string{
		"", "null", "[]", `{"description":5,"inputSchema":{"properties":[]}}`, `{"inputSchema":"x"}`,
		`{"description":"` + strings.Repeat("thing ", 1<<18) + `"}`, "{\"title\":\"\xff\xfe\"}",
	} {
		index := NewIndex([]Tool{{"a", "other", nil}, {"s", "find_thing", []byte(definition)}})
		if hits := index.Search("find thing", nil); len(hits) == 0 || hits[0].Tool != 1 {
			t.Errorf("%.40s: %v", definition, hits)
		}
	}
	if hits := NewIndex(nil).Search("anything", nil); len(hits) != 0 {
		t.Errorf("an empty index has %v", hits)
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"search_issues":             "search issues",
		"get-HTTPResponse.v2":       "get http response v2",
		"listPRs":                   "list prs",
		"listPRsOfUser":             "list prs of user",
		"userIDs":                   "user ids",
		"IOError":                   "io error",
		"HTML5Parser":               "html5 parser",
		"  a  b ":                   "a b",
		"Größe übersetzen":          "größe übersetzen",
		"搜索 files":                  "搜 索 files",
		"":                          "",
		strings.Repeat("x", 100):    strings.Repeat("x", maxWord),
		"one two three four five 6": "one two three four",
	} {
		if got := strings.Join(words(text, 4), " "); got != want {
			t.Errorf("words of %q are %q, want %q", text, got, want)
		}
	}
}

func TestStem(t *testing.T) {
	for _, same := range []string{
		"search searches searching searched", "issue issues", "directory directories", "create creates creating created",
		"box boxes", "merge merging merged merges", "run running runs", "list lists listing", "query queries querying",
	} {
		all := strings.Fields(same)
		for _, w := range all[1:] {
			if stem(w) != stem(all[0]) {
				t.Errorf("%s is %s, %s is %s", w, stem(w), all[0], stem(all[0]))
			}
		}
	}
	for _, w := range []string{"string", "status", "access", "is", "s3", "feed", "größen", "ping"} {
		if got := stem(w); got != w {
			t.Errorf("%s became %s", w, got)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{2000, 20000} {
		index := NewIndex(manyTools(n))
		for _, query := range []string{"create issue", "get the contents of a file in a repository", "serach contianer snapshto"} {
			b.Run(fmt.Sprintf("%d/%s", n, strings.ReplaceAll(query, " ", "-")), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					index.Search(query, nil)
				}
			})
		}
	}
}

func BenchmarkNewIndex(b *testing.B) {
	for _, n := range []int{2000, 20000} {
		tools := manyTools(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				NewIndex(tools)
			}
		})
	}
}

func FuzzSearch(f *testing.F) {
	tools, _ := readCatalogue()
	index := NewIndex(tools)
	f.Add("create a new issue", "searchIssues", `{"description":"x"}`)
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, query, name, definition string) {
		for _, x := range []*Index{index, NewIndex([]Tool{{"s", name, []byte(definition)}})} {
			hits := x.Search(query, nil)
			for i := 1; i < len(hits); i++ {
				if a, b := hits[i-1], hits[i]; b.Score > a.Score || b.Score == a.Score && b.Tool <= a.Tool || math.IsNaN(b.Score) {
					t.Errorf("%v stands before %v", a, b)
				}
			}
		}
	})
}
