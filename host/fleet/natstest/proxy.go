package natstest

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy passes connections on to a server, and disturbs them.
type Proxy struct {
	listener net.Listener
	target   string
	delay    atomic.Int64 // of each piece, in both directions, in nanoseconds
	deaf     atomic.Bool  // what the server sends is thrown away
	dumb     atomic.Bool  // what its clients send, too
	closed   atomic.Bool  // new connections are refused
	routines sync.WaitGroup
	serve    func(client, server net.Conn) // nil: everything is copied

	mu   sync.Mutex
	open map[net.Conn]bool
	// Cuts counts the connections that were cut.
	Cuts atomic.Int64
}

// StartProxy starts a proxy before a server at HOST:PORT. It is stopped when the test ends.
func StartProxy(t T, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, open: map[net.Conn]bool{}}
	p.routines.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.routines.Wait()
	})
	return p
}

// URL returns the address for clients.
func (p *Proxy) URL() string { return "nats://" + p.Address() }

// Address returns HOST:PORT.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Delay makes everything that much later, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Deafen keeps all answers of the server from its clients, until it is switched off.
func (p *Proxy) Deafen(on bool) { p.deaf.Store(on) }

// Silence throws everything away in both directions, and keeps the connections, until it is
// switched off.
func (p *Proxy) Silence(on bool) {
	p.deaf.Store(on)
	p.dumb.Store(on)
}

// Refuse ends all connections, and refuses new ones, until it is switched off.
func (p *Proxy) Refuse(on bool) {
	p.closed.Store(on)
	if on {
		p.Cut()
	}
}

// Cut ends all connections in the middle of whatever they transport.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		c.Close()
		delete(p.open, c)
		p.Cuts.Add(1)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.closed.Load() {
			client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		if p.serve != nil {
			p.routines.Go(func() {
				p.serve(client, server)
				p.forget(client, server)
			})
			continue
		}
		p.routines.Go(func() { p.pass(server, client, false) })
		p.routines.Go(func() { p.pass(client, server, true) })
	}
}

func (p *Proxy) forget(one, other net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, one)
	delete(p.open, other)
}

// pass copies from one connection to the other until one of them ends.
func (p *Proxy) pass(to, from net.Conn, answers bool) {
	defer func() {
		to.Close()
		from.Close()
		p.forget(to, from)
	}()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if d := time.Duration(p.delay.Load()); d > 0 {
			time.Sleep(d)
		}
		lost := answers && p.deaf.Load() || !answers && p.dumb.Load()
		if n > 0 && !lost {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
