package host

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// natsBytes returns everything that a NATS server keeps, as its operator sees it: subjects, also as what
// their base64 stands for, headers and data of all messages of all streams.
func natsBytes(t *testing.T, url string) (all []byte, messages int) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Deadline(time.Minute))
	defer cancel()
	var text bytes.Buffer
	streams := js.ListStreams(ctx)
	for info := range streams.Info() {
		s, err := js.Stream(ctx, info.Config.Name)
		if err != nil {
			t.Fatal(err)
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
			m, err := s.GetMsg(ctx, seq)
			if err != nil {
				continue // it was replaced
			}
			messages++
			fmt.Fprintf(&text, "%s\n%v\n", m.Subject, m.Header)
			for token := range strings.SplitSeq(m.Subject, ".") {
				if plain, err := base64.RawURLEncoding.DecodeString(token); err == nil {
					text.Write(append(plain, '\n'))
				}
			}
			text.Write(append(m.Data, '\n'))
		}
	}
	if err := streams.Err(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes(), messages
}

// beginSession begins a session, and returns its id.
func (p taskProcess) beginSession(token, client string) string {
	p.t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`, client)
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" {
		p.t.Fatal(resp.Status)
	}
	return id
}

// nothingReadable checks that the operator of the store reads nothing of what was called, answered and asked
// in a fleet, nor who has done so: only names of documents, ids, sizes and times.
func nothingReadable(t *testing.T, place fleettest.Place, secrets ...string) {
	t.Helper()
	var all []byte
	var objects int
	for end := time.Now().Add(maxWait); ; time.Sleep(20 * time.Millisecond) {
		// Records and sessions are written a moment later.
		var ready bool
		if all, objects, ready = contentOf(t, place); ready {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no session and records are there:\n%q", all)
		}
	}
	digest := sha256.Sum256([]byte("one-token"))
	secrets = append(secrets, "one-token", hex.EncodeToString(digest[:]), string(digest[:]), `"t":"`, "arguments", "jsonrpc", "mcp", "clientInfo", "Aurora")
	for _, secret := range secrets {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), hex.EncodeToString([]byte(secret))} {
			if i := bytes.Index(all, []byte(form)); i >= 0 {
				t.Errorf("%q can be read there: %q", form, all[max(0, i-100):min(len(all), i+100)])
			}
		}
	}
	t.Logf("%d objects, %d bytes", objects, len(all))
}
