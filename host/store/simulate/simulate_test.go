package simulate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// ttl is how long leases last here. A process may be suspended for longer.
const ttl = time.Second

// scene is one simulation: processes that take a lease from each other, and write to a log as
// long as they have it.
type scene struct {
	*testing.T
	world    *World
	log      string
	attempts []storetest.Attempt
	fences   map[uint64]string // who got which number
	holders  []holder
	fenced   []store.Position // where the log was fenced
	born     int
}

// holder is a process that got the lease.
type holder struct {
	process *Process
	lease   *lease.Lease
}

// TestLeases explores interleavings of the lease and the fence, with calls that fail, whose
// answers are lost, and that take effect long afterwards, with processes that die and are
// suspended anywhere: no two owners have the same number, none writes after a later one, nothing
// is lost or written twice, and no two think that they have the lease at the same time.
func TestLeases(t *testing.T) {
	seeds := storetest.Faults(1000, 15_000)
	var owners, events, unknown int
	for seed := range seeds {
		s := &scene{T: t, world: New(uint64(seed)), log: "log", fences: map[uint64]string{}}
		for range 3 {
			s.start()
		}
		s.world.Run(600)
		c := storetest.Check(t, s.world.Store(), s.log, s.attempts)
		for _, e := range storetest.Events(t, s.world.Store(), s.log, store.Position{}) {
			for _, from := range s.fenced {
				if e.Position.Number > from.Number && e.Position.Fence < from.Fence {
					t.Errorf("event %d has fencing number %d: the log was fenced with %d behind event %d", e.Position.Number, e.Position.Fence, from.Fence, from.Number)
				}
			}
		}
		owners, events, unknown = owners+len(s.fences), events+c.Events, unknown+c.Unknown
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, c)
		}
	}
	t.Logf("%d simulations, %d owners, %d events, %d attempts whose outcome stayed unknown", seeds, owners, events, unknown)
	if owners < seeds || events < seeds {
		t.Error("nothing much has happened")
	}
}

// start adds a process.
func (s *scene) start() {
	s.born++
	s.world.Go(fmt.Sprintf("process %d", s.born), s.run)
}

// run is a process: it takes the lease some times.
func (s *scene) run(p *Process) {
	leases := lease.New(p.Store(), lease.Options{Owner: p.Name, TTL: ttl, Now: p.Now})
	for range 4 {
		l := s.take(p, leases)
		if !s.own(p, l) {
			continue
		}
		switch s.world.Rand.IntN(4) {
		case 0:
			if s.born < 6 {
				s.start()
			}
			p.Die()
		case 1: // it forgets that it has the lease
		case 2:
			_ = l.Release(context.Background())
		case 3:
			if l.Release(context.Background()) == nil {
				_ = leases.Forget(context.Background(), "x")
			}
		}
	}
}

// take waits for the lease.
func (s *scene) take(p *Process, leases *lease.Leases) *lease.Lease {
	for {
		l, err := leases.Take(context.Background(), "x")
		if err != nil {
			p.Sleep(time.Duration(s.world.Rand.IntN(100)) * time.Millisecond)
			continue
		}
		if other, again := s.fences[l.Fence()]; again {
			s.Errorf("%s and %s have fencing number %d", other, p.Name, l.Fence())
		}
		s.fences[l.Fence()] = p.Name
		for _, h := range s.holders {
			if h.process != p && h.lease.Until().After(h.process.Now()) && l.Until().After(p.Now()) {
				s.Errorf("%s takes the lease, and %s has it until %v from now", p.Name, h.process.Name, h.lease.Until().Sub(h.process.Now()))
			}
		}
		s.holders = append(s.holders, holder{p, l})
		return l
	}
}

// own writes as the owner of the log. It returns false if somebody else owns it.
func (s *scene) own(p *Process, l *lease.Lease) bool {
	ctx, st := context.Background(), p.Store()
	var at store.Position
	for {
		from, err := st.Fence(ctx, s.log, l.Fence())
		if fenced(err) {
			return false
		}
		if err == nil {
			s.fenced = append(s.fenced, from)
			if at, err = storetest.End(ctx, st, s.log, at); err == nil {
				break
			}
		}
	}
	for range 3 {
		switch s.world.Rand.IntN(8) {
		case 0: // suspended, perhaps for longer than the lease lasts
			p.Sleep(time.Duration(s.world.Rand.IntN(3000)) * time.Millisecond)
		case 1, 2:
			if errors.Is(l.Renew(ctx), lease.ErrLost) {
				return false // which it need not learn in time
			}
		}
		e := store.Entry{After: at, Fence: l.Fence(), ID: store.NewID(), Data: []byte(p.Name)}
		s.attempts = append(s.attempts, storetest.Attempt{ID: e.ID, Number: at.Number + 1, Fence: e.Fence, Unknown: true})
		index := len(s.attempts) - 1
		for {
			next, err := st.Append(ctx, s.log, e)
			a := &s.attempts[index]
			switch {
			case err == nil:
				a.Unknown, a.Written, at = false, true, next
			case fenced(err), conflict(err):
				a.Unknown = false
				return false
			case errors.Is(err, store.ErrUnknown) && s.world.Rand.IntN(5) == 0:
				return true // it gives up, and never learns
			default:
				continue
			}
			break
		}
	}
	return true
}

func fenced(err error) bool { return errors.As(err, new(*store.FencedError)) }

func conflict(err error) bool { return errors.As(err, new(*store.ConflictError)) }

// TestSameSeed checks that a seed determines everything.
func TestSameSeed(t *testing.T) {
	run := func() string {
		w := New(7)
		var text string
		for _, name := range []string{"a", "b", "c"} {
			w.Go(name, func(p *Process) {
				for range 20 {
					_, err := p.Store().Fence(t.Context(), "log", uint64(w.Rand.IntN(10)))
					text += fmt.Sprintln(name, p.Now(), err)
				}
			})
		}
		w.Run(1000)
		return text
	}
	if a, b := run(), run(); a != b || a == "" {
		t.Errorf("the same seed gives\n%s\nand\n%s", a, b)
	}
}
