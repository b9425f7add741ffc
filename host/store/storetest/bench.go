package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Bench measures what a Store costs: an event of a run, ten runs of events at the same time, a
// run of ten events that is read again, a document, and the renewal of what one reads and
// writes.
func Bench(b *testing.B, s store.Store) {
	for _, size := range []int{200, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("append/%d", size), func(b *testing.B) {
			var at store.Position
			log, data := newLog(), content(size)
			b.SetBytes(int64(size))
			for b.Loop() {
				at = mustAppend(b, s, log, at, data)
			}
		})
	}
	b.Run("append/200/parallel", func(b *testing.B) {
		data := content(200)
		b.SetParallelism(10)
		b.RunParallel(func(p *testing.PB) {
			var at store.Position
			log := newLog()
			for p.Next() {
				at = mustAppend(b, s, log, at, data)
			}
		})
	})
	b.Run("read/10", func(b *testing.B) {
		var at store.Position
		log, data := newLog(), content(200)
		for range 10 {
			at = mustAppend(b, s, log, at, data)
		}
		for b.Loop() {
			n := 0
			for _, err := range s.Read(b.Context(), log, store.Position{}) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 10 {
				b.Fatal(n)
			}
		}
	})
	b.Run("put/1000", func(b *testing.B) {
		key := store.Key{Collection: "bench", Name: newLog()}
		data := content(1000)
		var r store.Version
		var err error
		for n := 0; b.Loop(); n++ {
			data[0], data[1], data[2] = byte(n), byte(n>>8), byte(n>>16)
			if r, err = s.Put(b.Context(), key, r, data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("get/1000", func(b *testing.B) {
		key := store.Key{Collection: "bench", Name: newLog()}
		if _, err := s.Put(b.Context(), key, "", content(1000)); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := s.Get(b.Context(), key); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func mustAppend(b *testing.B, s store.Store, log string, at store.Position, data []byte) store.Position {
	at, err := s.Append(context.Background(), log, store.Entry{After: at, ID: store.NewID(), Data: data})
	if err != nil {
		b.Fatal(err)
	}
	return at
}
