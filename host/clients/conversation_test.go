package clients

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestConversations plays testdata/*.txtar. A line that begins with "> " is sent, one
// with "< " must be received, byte for byte, and one with "! " is a command of this
// test. No message may follow after the last line.
func TestConversations(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+f.Name, func(t *testing.T) {
				play(t, string(f.Data))
			})
		}
	}
}

func play(t *testing.T, text string) {
	k := newTalk(t)
	var lines clienttest.Lines
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "> "):
			k.send(lines.Sent(line[2:]))
		case strings.HasPrefix(line, "< "):
			if bad := lines.Check(k.receive(), line[2:]); bad != "" {
				t.Fatal(bad)
			}
		case strings.HasPrefix(line, "! "):
			k.command(line[2:])
		}
	}
	k.closeInput()
}

// command runs a "!" line of a conversation.
func (k *talk) command(line string) {
	k.t.Helper()
	name, arg, _ := strings.Cut(line, " ")
	switch name {
	case "initialize":
		k.initialize(arg)
	case "release":
		k.backend.Release <- struct{}{}
	case "cancelled":
		if err := mcptest.Receive(k.t, "the end of a call", k.backend.Cancelled); err.Error() != arg {
			k.t.Errorf("cancelled with %q, want %q", err, arg)
		}
	case "notified":
		if got := mcptest.Receive(k.t, "a notification", k.backend.Notifications); got != arg {
			k.t.Errorf("the backend heard %q, want %q", got, arg)
		}
	case "refuse":
		k.backend.Refuse <- wire.Errorf(-32099, "%s", arg)
	case "after":
		go (<-k.backend.After)()
	case "changed":
		s := mcptest.Receive(k.t, "the session", k.backend.Began)
		k.backend.Began <- s
		surface, notice, announced := strings.Cut(arg, " ")
		var params []byte
		if announced {
			params = []byte(notice)
		}
		s.Changed(wire.Surface(surface), params)
	case "updated":
		s := mcptest.Receive(k.t, "the session", k.backend.Began)
		k.backend.Began <- s
		s.Notify("notifications/resources/updated", []byte(arg))
	case "large":
		k.send(`{"x":"` + strings.Repeat("x", 70<<10) + `"}`)
	default:
		k.t.Fatalf("unknown command %q", line)
	}
}
