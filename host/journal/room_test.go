package journal

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// countedRoom is a Room with a limit.
type countedRoom struct {
	left             int64
	asked            []int64
	open, attachedTo int
}

func (r *countedRoom) room(_ context.Context, bytes int64) (Memory, error) {
	if r.asked = append(r.asked, bytes); bytes > r.left {
		return nil, ErrNoRoom
	}
	r.left -= bytes
	r.open++
	return &countedMemory{r, bytes}, nil
}

type countedMemory struct {
	room  *countedRoom
	bytes int64
}

func (m *countedMemory) Close() {
	m.room.left += m.bytes
	m.room.open--
}

func (m *countedMemory) Attach(b []byte) {
	if len(b) != 0 {
		m.room.attachedTo++
	}
}

// TestReadsTakeRoom checks that the index and the records of all reads are counted, and that
// errors say for what there was no memory.
func TestReadsTakeRoom(t *testing.T) {
	dir := t.TempDir()
	l := OpenLog(dir, LogOptions{Log: slog.New(slog.DiscardHandler)})
	defer func() { _ = l.Close() }()
	const runs = 1500
	last := ""
	for i := range runs {
		r, err := l.Open(Begin{Params: []byte(`{"x":"` + strings.Repeat("x", 400) + `"}`), Limits: Limits{Timeout: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		if last = r.ID(); i == runs-1 {
			r.Input(InputRecord{Call: 1, Name: "question1", Method: "roots/list"})
		}
		r.Close(Outcome{Result: []byte("1")})
	}
	reads := map[string]func(Room) error{
		"Scan": func(room Room) (failed error) {
			for _, err := range (Reader{Dir: dir, Room: room}).Scan(t.Context(), Filter{Limit: 1}) {
				if failed = err; err != nil {
					break
				}
			}
			return failed
		},
		"Find":  func(room Room) error { _, err := Reader{Dir: dir, Room: room}.Find(t.Context(), last); return err },
		"Chain": func(room Room) error { _, err := l.Chain(last, room); return err },
	}
	for name, read := range reads {
		all := &countedRoom{left: 1 << 40}
		if err := read(all.room); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		kept := map[string]int{"Find": 1, "Chain": 1}[name] // records that the caller has
		index := 0
		for _, bytes := range all.asked {
			if bytes == indexChunk {
				index++
			}
		}
		if want := (runs*(runBytes+2*eventBytes) - 64<<10) / indexChunk; index < want || all.open != kept || all.attachedTo != kept {
			t.Errorf("%s asked for %v, at least %d of the index, and has %d in the end, %d attached", name, all.asked, want, all.open, all.attachedTo)
		}
		var full *RoomError
		few := &countedRoom{left: indexChunk}
		if err := read(few.room); !errors.As(err, &full) || full.Run != "" || !errors.Is(err, ErrNoRoom) || errors.Is(err, ErrNotFound) || !strings.HasPrefix(err.Error(), "the index of the journal: ") {
			t.Errorf("%s without memory for the index: %v", name, err)
		}
		if name == "Chain" {
			index /= 2 // it reads the index twice
		}
		most := &countedRoom{left: int64(index) * indexChunk}
		err := read(most.room)
		if !errors.As(err, &full) || full.Run != last || errors.Is(err, ErrNotFound) || !strings.HasPrefix(err.Error(), "run "+last) {
			t.Errorf("%s without memory for the record: %v", name, err)
		}
		if few.open != 0 || most.open != 0 {
			t.Errorf("%s keeps memory after an error: %d, %d", name, few.open, most.open)
		}
	}
}
