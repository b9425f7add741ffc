// Package simulate runs processes that share a store in one goroutine at a time, in an order and
// with faults that a seed determines, and in virtual time. A failure is repeated with its seed.
//
//	world.go   World: processes, their order, time
//	memory.go  the store
package simulate

import (
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// World is some processes and a store. It is not safe for concurrent use: everything happens in
// Run.
type World struct {
	Rand *rand.Rand
	now  time.Time
	all  []*Process
	data data
	// late are writes that are still on their way, although their writers do not wait for
	// them any more.
	late []func()
}

// New returns a World.
func New(seed uint64) *World {
	return &World{Rand: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_800_000_000, 0), data: newData()}
}

// Process is a process. Its methods are called by itself only.
type Process struct {
	Name   string
	world  *World
	offset time.Duration // of its clock
	wake   time.Time
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	ended  bool
}

// killed ends the function of a process that was killed.
type killed struct{}

// Go adds a process, whose clock shows any time.
func (w *World) Go(name string, f func(*Process)) {
	p := &Process{Name: name, world: w, offset: time.Duration(w.Rand.Int64N(int64(time.Hour))) - 30*time.Minute, wake: w.now}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			p.ended = true
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(r)
				}
			}
		}()
		p.yield = yield
		f(p)
	})
	w.all = append(w.all, p)
}

// Run runs the processes until all have ended, or most steps are over; then those that are left
// are killed. Whatever is on its way arrives.
func (w *World) Run(most int) {
	for range most {
		ready := w.ready()
		if ready == nil {
			break
		}
		if len(w.late) > 0 && w.Rand.IntN(4) == 0 {
			w.arrive()
		}
		p := ready[w.Rand.IntN(len(ready))]
		p.next()
	}
	for _, p := range w.all {
		p.stop()
	}
	for len(w.late) > 0 {
		w.arrive()
	}
}

// ready returns the processes that can go on; nil if there are none any more. If all sleep, time
// goes on.
func (w *World) ready() []*Process {
	w.all = slices.DeleteFunc(w.all, func(p *Process) bool { return p.ended })
	if len(w.all) == 0 {
		return nil
	}
	first := slices.MinFunc(w.all, func(a, b *Process) int { return a.wake.Compare(b.wake) })
	if first.wake.After(w.now) {
		w.now = first.wake
	}
	var ready []*Process
	for _, p := range w.all {
		if !p.wake.After(w.now) {
			ready = append(ready, p)
		}
	}
	return ready
}

// arrive lets any of the late writes arrive.
func (w *World) arrive() {
	i := w.Rand.IntN(len(w.late))
	write := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	write()
}

// Now returns the time on the clock of the process.
func (p *Process) Now() time.Time { return p.world.now.Add(p.offset) }

// Sleep lets others go on, for some time at least.
func (p *Process) Sleep(d time.Duration) {
	p.wake = p.world.now.Add(d)
	if !p.yield(struct{}{}) {
		panic(killed{})
	}
}

// Die ends the process where it is.
func (p *Process) Die() { panic(killed{}) }

// Store returns the store as the process sees it: slow, and with faults.
func (p *Process) Store() store.Store { return &memory{p.world, p} }

// Store returns the store without faults, for checks after Run.
func (w *World) Store() store.Store { return &memory{w, nil} }
