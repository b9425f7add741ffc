package edit

import (
	"errors"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestTokens adds tokens to files of all forms, reads them back, and removes them.
func TestTokens(t *testing.T) {
	token := bearer.Token{
		Name: "ci", Digest: bearer.DigestOf("x"), Expires: time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC),
		Rights: bearer.Rights{NoSave: true, Expose: []string{"a.*"}, Hide: []string{"a.b", "tools.*"}, Own: "ci"},
	}
	for path, texts := range map[string][]string{
		"c.toml": {"", "[http]\nui = true\n", "[http]\ntokens = [\n  'a-token-of-some-length', # mine\n]\n", "[[http.tokens]]\nname = 'a'\ntoken = 'a-token-of-some-length'\n"},
		"c.json": {"", `{}`, `{"http": {"ui": true}}`, `{"http": {"tokens": ["a-token-of-some-length"]}}`, "{\n\t\"http\": {\n\t\t\"tokens\": []\n\t}\n}\n"},
	} {
		for _, text := range texts {
			f := New(path, []byte(text))
			if err := f.AddToken(token); err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			added := string(f.Text())
			c, err := f.Parse(config.LoadOptions{})
			if err != nil {
				t.Errorf("%s: %v", added, err)
				continue
			}
			got := c.HTTP.Tokens[len(c.HTTP.Tokens)-1]
			if got.Name != "ci" || got.Digest != token.Digest || !got.Expires.Equal(token.Expires) || got.Rights.View() != token.Rights.View() || !got.Rights.NoSave {
				t.Errorf("%s: %+v", added, got)
			}
			if err := f.RemoveToken("CI"); err != nil {
				t.Errorf("%s: %v", added, err)
			}
			if err := f.RemoveToken("ci"); !errors.Is(err, ErrNoToken) {
				t.Errorf("again: %v", err)
			}
			if _, err = f.Parse(config.LoadOptions{}); err != nil {
				t.Errorf("%s becomes %s: %v", added, f.Text(), err)
			}
		}
	}
	for path, text := range map[string]string{"a.toml": "http = 1", "b.toml": "[http]\ntokens = 1\n", "c.toml": "[", "a.json": `{"http": 1}`, "b.json": `{"http": {"tokens": {}}}`, "c.json": "{"} {
		if f := New(path, []byte(text)); f.AddToken(token) == nil {
			t.Errorf("%s becomes %s", text, f.Text())
		}
	}
}
