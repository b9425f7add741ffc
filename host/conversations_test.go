package host

import (
	"cmp"
	"context"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// relay is a server that the test plays: it forwards its input and output over a connection.
// It ends with that.
func relay(o upstreamOptions) {
	conn, err := net.Dial("tcp", o.args[0])
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	var other sync.WaitGroup
	other.Go(func() {
		_, _ = io.Copy(conn, o.in)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(o.out, conn)
	o.in.Close()
	other.Wait()
}

// TestConversations plays testdata/conversations/*.txtar through a Host with one
// upstream, "up". The test is both the client and the upstream, and every line is raw:
// the client sends "c> " and must receive "c< "; the upstream must receive "u< " and
// sends "u> ", or ends with "u! "; in this order. $name matches anything the first time it is received, and
// from then on stands for that. A file's comment may set the prefix of the upstream
// ("prefix=x__"), and the values of its key protocol ("protocol=2026-07-28"), of task_after
// ("task_after=1ms") and of pins ("pins=enforce").
func TestConversations(t *testing.T) {
	t.Parallel() // it mostly waits
	files, err := filepath.Glob("testdata/conversations/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		setting := func(name string) string {
			if _, rest, ok := strings.Cut(string(archive.Comment), name+"="); ok {
				return strings.Trim(strings.Fields(rest)[0], ".,")
			}
			return ""
		}
		prefix, revision := setting("prefix"), setting("protocol")
		after, _ := time.ParseDuration(setting("task_after")) // 0 if it is not set
		for _, f := range archive.Files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+f.Name, func(t *testing.T) {
				newTalk(t, prefix, revision, func(cfg *config.Config) {
					cfg.Execution.TaskAfter, cfg.Journal.MaxAge = after, time.Minute
					cfg.Pins = config.PinMode(setting("pins"))
				}).play(string(f.Data))
			})
		}
	}
}

// talk is a conversation over raw lines.
type talk struct {
	t      *testing.T
	client struct {
		in  *io.PipeWriter
		out *wire.Reader
	}
	upstream struct {
		conn net.Conn
		in   *wire.Reader
	}
	names map[string]string // what $name stands for
}

func newTalk(t *testing.T, prefix, revision string, change ...func(*config.Config)) *talk {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	up := upstreamOf("up", "relay")
	up.Args, up.Prefix, up.Restart = []string{ln.Addr().String()}, prefix, config.RestartNever
	// With auto, it is asked for the other era after a while.
	up.Protocol = cmp.Or(config.Protocol(revision), config.Legacy)
	cfg := testConfig(t, up)
	for _, f := range change {
		f(cfg)
	}
	h, _ := startHostFor(t, cfg, OneClient)
	// $env is the envelope of a request of the stateless era, $more its beginning.
	k := &talk{t: t, names: map[string]string{"$env": clienttest.Envelope, "$more": strings.TrimSuffix(clienttest.Envelope, "}")}}
	if k.upstream.conn, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.upstream.conn.Close() })
	k.upstream.in = wire.NewReader(k.upstream.conn, 0)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	k.client.in, k.client.out = inW, wire.NewReader(outR, 0)
	served := make(chan error, 1)
	go func() {
		err := h.Serve(context.Background(), inR, outW)
		outW.Close()
		served <- err
	}()
	t.Cleanup(func() {
		inW.Close()
		_, _ = io.Copy(io.Discard, outR)
		if err := <-served; err != nil {
			t.Errorf("session: %v", err)
		}
	})
	return k
}

func (k *talk) play(text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		who, what, ok := strings.Cut(line, " ")
		if !ok {
			k.t.Fatalf("no line of a conversation: %q", line)
		}
		switch who {
		case "c>":
			k.say(k.client.in, what)
		case "u>":
			k.say(k.upstream.conn, what)
		case "c<":
			k.expect(line, what, k.client.out)
		case "u<":
			k.expect(line, what, k.upstream.in)
		case "u!": // the upstream ends
			k.upstream.conn.Close()
		default:
			k.t.Fatalf("no line of a conversation: %q", line)
		}
	}
}

var placeholder = regexp.MustCompile(`\$[a-z]+`)

func (k *talk) say(to io.Writer, text string) {
	k.t.Helper()
	text = placeholder.ReplaceAllStringFunc(text, func(name string) string {
		if value, ok := k.names[name]; ok {
			return value
		}
		return name // "$ref"
	})
	if _, err := io.WriteString(to, text+"\n"); err != nil {
		k.t.Fatal(err)
	}
}

// maxWait is how long a test waits for a message that must arrive. TestMain makes it longer on a
// slow machine.
var maxWait = time.Minute

func (k *talk) expect(line, want string, from *wire.Reader) {
	k.t.Helper()
	timer := time.AfterFunc(maxWait, func() { // ends the read
		k.upstream.conn.Close()
		k.client.in.CloseWithError(context.DeadlineExceeded)
	})
	raw, err := from.Read()
	timer.Stop()
	if err != nil {
		k.t.Fatalf("%s\nnothing came: %v", line, err)
	}
	var open []string
	pattern := regexp.QuoteMeta(want)
	pattern = regexp.MustCompile(`\\\$[a-z]+`).ReplaceAllStringFunc(pattern, func(name string) string {
		name = name[1:]
		if value, ok := k.names[name]; ok {
			return regexp.QuoteMeta(value)
		}
		open = append(open, name)
		return `(.+?)`
	})
	found := regexp.MustCompile("^" + pattern + "$").FindSubmatch(raw)
	if found == nil {
		k.t.Fatalf("got  %s\nwant %s", raw, line)
	}
	for i, name := range open {
		k.names[name] = string(found[i+1])
	}
}
