package process

import (
	"io"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
)

// BenchmarkStart starts a server and waits for the server's end.
func BenchmarkStart(b *testing.B) {
	sandbox := &confine.Settings{}
	for name, s := range map[string]*confine.Settings{"unconfined": nil, "confined": sandbox} {
		if s != nil && len(confine.Lacks(s)) > 0 {
			continue
		}
		b.Run(name, func(b *testing.B) {
			for range b.N {
				p, err := Start(Command{Name: "/bin/cat", Sandbox: s}, Options{})
				if err != nil {
					b.Fatal(err)
				}
				out := p.Stdout()
				if _, err := p.Stdin().WriteString("x"); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				p.Stdin().Close()
				p.Stop(time.Minute, nil)
				out.Close()
				p.Release()
				b.StartTimer()
			}
		})
	}
}
