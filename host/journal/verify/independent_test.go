package verify

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// independent checks the chain and the signature of a run, and the order of what has ended, as
// docs/journal.md describes them, and uses nothing of this program. It returns the id of the run that is
// signed, and how many places there are.
func independent(text string, key ed25519.PublicKey) (run string, places int, err error) {
	linkEnd := regexp.MustCompile(`,"link":"([0-9a-f]{16})/([0-9]+)/([0-9a-f]{64})"\}$`)
	sealEnd := regexp.MustCompile(`,"seal":(\{"events":[^{}]*\})\}$`)
	length := func(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	heads, events, before := map[string]string{}, map[string]int{}, make([]byte, 32)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		link := linkEnd.FindStringSubmatch(line)
		line = linkEnd.ReplaceAllString(line, "}")
		sealed := sealEnd.FindStringSubmatch(line)
		line = sealEnd.ReplaceAllString(line, "}")
		sum := sha256.Sum256(bytes.Join([][]byte{[]byte("mcp-metatool journal event 1\n"), length(len(line)), []byte(line)}, nil))
		var event struct{ T, Run, Prev string }
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			return "", 0, err
		}
		if event.Prev != heads[event.Run] {
			return "", 0, fmt.Errorf("event %d of run %s does not follow", events[event.Run]+1, event.Run)
		}
		heads[event.Run] = hex.EncodeToString(sum[:])
		events[event.Run]++
		var signature []byte
		if sealed != nil {
			var s struct {
				Events                                int
				Outcome, Guest, After, Time, Key, Sig string
			}
			if err := json.Unmarshal([]byte(sealed[1]), &s); err != nil {
				return "", 0, err
			}
			for _, empty := range []*string{&s.Guest, &s.After} {
				if *empty == "" {
					*empty = "-"
				}
			}
			statement := fmt.Sprintf("mcp-metatool seal 1\nrun %s\nhead %x\nevents %d\noutcome %s\nguest %s\nafter %s\ntime %s\nkey %s\n",
				event.Run, sum, events[event.Run], s.Outcome, s.Guest, s.After, s.Time, s.Key)
			if s.Events != events[event.Run] {
				return "", 0, fmt.Errorf("run %s has %d events", event.Run, events[event.Run])
			}
			if signature, err = base64.StdEncoding.DecodeString(s.Sig); err != nil || !ed25519.Verify(key, []byte(statement), signature) {
				return "", 0, fmt.Errorf("run %s: the signature is wrong", event.Run)
			}
			if event.T == "end" {
				run = event.Run
			}
		}
		if link != nil {
			places++
			place := sha256.Sum256(bytes.Join([][]byte{
				[]byte("mcp-metatool journal link 1\n"), length(16), []byte(link[1]), length(places), before, sum[:], signature}, nil))
			if link[2] != fmt.Sprint(places) || link[3] != hex.EncodeToString(place[:]) {
				return "", 0, fmt.Errorf("place %d is not %s/%s", places, link[2], link[3])
			}
			before = place[:]
		}
	}
	return run, places, nil
}

func TestIndependentVerifier(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, signed())
	play(t, l, "plain")
	id := play(t, l, "order")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text := journalText(t, dir)
	key := testKey.Public()
	if run, places, err := independent(text, key.Bytes()); err != nil || run != id || places != 4 {
		t.Errorf("run %s, %d places, %v", run, places, err)
	}
	for _, change := range [][2]string{{`"price":41`, `"price":42`}, {`"events":`, `"events":1`}, {`/3/`, `/4/`}, {`"outcome":"ok"`, `"outcome":"no"`}} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if _, _, err := independent(changed, key.Bytes()); err == nil || changed == text {
			t.Errorf("%s is not found", change[1])
		}
	}
}
