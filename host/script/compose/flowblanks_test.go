package compose

import (
	"fmt"
	"testing"
)

// TestFlowBlanks checks scripts of which shadows come to the end only because of how their blanks
// are made.
func TestFlowBlanks(t *testing.T) {
	// mail has three pages.
	for _, tt := range []struct{ name, code string }{
		{"pages until one is empty", "while True:\n  m = mail.list()\n  if not m:\n    break\nchat.post({'text': 'read'})\nreturn 1"},
		{"again until it answers", "while True:\n  try:\n    m = mail.list()\n    break\n  except Exception as e:\n    continue\nchat.post({'text': 'read'})\nreturn 1"},
		{"JSON in a text", "import json\np = json.loads(web.fetch({}).text)\nv = p['theme'].upper() + p['url'].split('://')[1]\nbank.transfer({'to': 'rent'})\nreturn v"},
		{"lines of a text", "t = web.fetch({}).text\nv = t.split('\"theme\": ')[1].split(',')[0]\nbank.transfer({'to': 'rent'})\nreturn v"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newFlowRig(t)
			r.page = `{"theme": "dark", "url": "https://a.example/"}`
			pages := 0
			r.calling = func(name string) {
				if name == "mail.list" {
					if pages++; pages > 3 {
						r.mails = "[]"
					}
				}
			}
			run := r.run(t, tt.code)
			run.passed()
			if n := len(run.sent("chat.post")) + len(run.sent("bank.transfer")); n != 1 {
				t.Errorf("%d calls of sinks: %q", n, run.calls)
			}
		})
	}
	// Blanks after the limit are empty, and compared like others.
	for _, n := range []int{5, 100} {
		r := newFlowRig(t)
		run := r.run(t, fmt.Sprintf("for i in range(%d):\n  m = mail.list()\nchat.post({'n': len(m)})\nreturn 1", n))
		run.denied()
	}
}
