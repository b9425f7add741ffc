package pins

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Mode says what pins do.
type Mode string

// The modes.
const (
	Off     Mode = "off"     // nothing is compared or written
	Warn    Mode = "warn"    // what has changed is reported
	Enforce Mode = "enforce" // and may not be used until it is accepted
)

// Settings say what is pinned.
type Settings struct {
	// Path is the file. With Shared it is a copy.
	Path string
	// Shared has the pins of a fleet; nil: there is none.
	Shared Source
	// Seed is the file with the pins before there was a fleet, which they begin with; "" for
	// none.
	Seed string
	// Servers are those that are not disabled, in the order of the configuration.
	Servers []ServerSettings
	// Reserved are the names of our own tools.
	Reserved []string
	// Public returns the public name of a tool or prompt, from the prefix of its server and the
	// server's own name. Nil: one after the other.
	Public func(prefix, own string) string
	// Secret reports whether a definition contains a secret of the configuration, so that it
	// must not be written down. Nil: there are none.
	Secret func(definition []byte) bool
}

// ServerSettings are those of one server.
type ServerSettings struct {
	Name   string
	Prefix string // of the names of its tools and prompts
	Mode   Mode
}

// Options of a Keeper. All must be set but ReadOnly.
type Options struct {
	// ReadOnly says that the file is never written: what is not pinned yet is trusted while
	// this process runs.
	ReadOnly bool
	// OnChange is called, without locks held, when what Check returns may have changed.
	OnChange func()
	Log      *slog.Logger
}

// Keeper holds the pins of a running proxy: it trusts each list of a server when it first
// gets it, writes it down, and compares what comes later. It is safe for concurrent use.
type Keeper struct {
	opts Options
	now  atomic.Pointer[state]

	// changing makes one change of now at a time. It is held while the file is read and
	// written.
	changing sync.Mutex

	mu     sync.Mutex // guards offers; a leaf
	offers map[string]map[wire.Surface]map[string]*Definition

	stop      context.CancelFunc
	following sync.WaitGroup
}

// state is what a Keeper knows. It does not change.
type state struct {
	path     string
	shared   Source // nil: the file is all
	seed     string
	reserved []string // names of our own tools
	public   func(prefix, own string) string
	secret   func([]byte) bool       // Settings.Secret; not nil
	servers  map[string]*serverState // those whose mode is not off
	lock     *Lock
	// fault is why the file cannot be read; nil if it can.
	fault error
	// existed says that there was a file, so that its absence is no first use.
	existed bool
	looks   map[look][]owner
	seen    fingerprint // of the file
}

// serverState is a server whose mode is not off.
type serverState struct {
	ServerSettings
	rank      int      // in the order of the configuration
	about     *Finding // what is to be said about its handshake; nil for nothing
	unwritten error    // why what it offers is not written down; nil if it is
}

// look is what the public name of a tool or prompt looks like.
type look struct {
	surface wire.Surface
	text    string
}

// owner is a pinned tool or prompt, or one of our own tools.
type owner struct {
	rank         int
	server, name string
	beside       []string // see entry
}

func (o owner) String() string { return o.server + "." + o.name }

// ours stands for the server of our own tools in [Finding.Other].
const ours = "builtin"

// NewKeeper returns a Keeper that keeps no pins before Configure. The caller must Close it.
func NewKeeper(opts Options) *Keeper {
	k := &Keeper{opts: opts, offers: map[string]map[wire.Surface]map[string]*Definition{}, stop: func() {}}
	k.now.Store(&state{lock: New()})
	return k
}

// Configure sets what is pinned, and reads the file if that is anything.
func (k *Keeper) Configure(s Settings) {
	k.changing.Lock()
	before := k.now.Load()
	now := newState(s, New())
	now.existed = before.existed && before.path == now.path
	switch {
	case len(now.servers) == 0:
	case now.shared != nil && k.opts.ReadOnly:
		now.fetch(context.Background())
	default:
		now.read(before)
	}
	k.set(now)
	k.follow(len(now.servers) > 0, now.shared)
	k.changing.Unlock()
	k.opts.OnChange()
}

// newState returns a state that nothing has been compared with.
func newState(s Settings, l *Lock) *state {
	now := &state{path: s.Path, shared: s.Shared, seed: s.Seed, reserved: s.Reserved, public: s.Public, secret: s.Secret, servers: map[string]*serverState{}, lock: l}
	if now.public == nil {
		now.public = func(prefix, own string) string { return prefix + own }
	}
	if now.secret == nil {
		now.secret = func([]byte) bool { return false }
	}
	for i, server := range s.Servers {
		if server.Mode != Off && server.Mode != "" {
			now.servers[server.Name] = &serverState{ServerSettings: server, rank: i}
		}
	}
	return now
}

// set completes a new state and uses it. The caller holds k.changing.
func (k *Keeper) set(now *state) {
	now.looks = now.findLooks()
	k.trust(now)
	now.compareAbout(k.offered)
	k.report(now)
	k.now.Store(now)
}

// change makes a new state of the current one, and uses it.
func (k *Keeper) change(f func(now *state)) {
	k.changing.Lock()
	now := *k.now.Load()
	now.servers = map[string]*serverState{}
	for name, s := range k.now.Load().servers {
		copied := *s
		now.servers[name] = &copied
	}
	f(&now)
	k.set(&now)
	k.changing.Unlock()
	k.opts.OnChange()
}

// findLooks returns what the names of pinned tools and prompts look like.
func (s *state) findLooks() map[look][]owner {
	all := map[look][]owner{}
	add := func(surface wire.Surface, texts []string, o owner) {
		for _, text := range texts {
			at := look{surface, text}
			all[at] = append(all[at], o)
		}
	}
	for _, name := range s.reserved {
		add(wire.Tools, looks(name), owner{rank: -1, server: ours, name: name})
	}
	for _, server := range s.servers {
		for _, surface := range []wire.Surface{wire.Tools, wire.Prompts} {
			for name, e := range s.lock.servers[server.Name][surface] {
				add(surface, s.looksOf(server, name), owner{server.rank, server.Name, name, e.beside})
			}
		}
	}
	return all
}

// looksOf returns what a tool or prompt looks like: its public name, and that before it was
// shortened or characters of it were replaced.
func (s *state) looksOf(server *serverState, own string) []string {
	plain, public := server.Prefix+own, s.public(server.Prefix, own)
	all := looks(plain)
	if public != plain {
		all = slices.Concat(all, looks(public))
		slices.Sort(all)
		all = slices.Compact(all)
	}
	return all
}

// taken returns what of other servers a tool or prompt can be taken for, as sorted
// "server.name" without duplicates. If pinned is set, it counts only servers that are
// configured before, and not what was accepted beside it.
func (s *state) taken(server *serverState, surface wire.Surface, name string, pinned bool) []string {
	if surface == wire.Templates {
		return nil // their URIs are compared as they are
	}
	var others []string
	for _, text := range s.looksOf(server, name) {
		for _, o := range s.looks[look{surface, text}] {
			beside := slices.Contains(o.beside, server.Name+"."+name)
			if o.server != server.Name && (!pinned || o.rank < server.rank && !beside) {
				others = append(others, o.String())
			}
		}
	}
	slices.Sort(others)
	return slices.Compact(others)
}

// Mode returns what pins of a server do.
func (k *Keeper) Mode(server string) Mode {
	if s := k.now.Load().servers[server]; s != nil {
		return s.Mode
	}
	return Off
}

// Check returns what is to be said about a definition that a server offers, under the
// server's own name of it; nil if there is nothing. It does not block.
func (k *Keeper) Check(server string, surface wire.Surface, name string, d *Definition) *Finding {
	return k.now.Load().check(Item{server, surface, name}, d)
}

func (s *state) check(item Item, d *Definition) *Finding {
	server := s.servers[item.Server]
	if server == nil {
		return nil
	}
	if general := s.general(server); general != nil {
		if general.Withheld {
			f := *general
			f.Item = item
			return &f
		}
		if s.fault != nil {
			return nil // it is said once, by Problems
		}
	}
	if !slices.Contains(pinned, item.Surface) {
		return nil
	}
	f := &Finding{Item: item, Withheld: server.Mode == Enforce, is: d.canonical()}
	defs, recorded := s.lock.servers[item.Server][item.Surface]
	e, known := defs[item.Name]
	f.was = e.canonical
	if err := s.unpinnable(d, known); err != nil {
		f.Reason, f.Err, f.is = Unpinnable, err, nil
		return f
	}
	others := s.taken(server, item.Surface, item.Name, known)
	others = slices.DeleteFunc(others, func(o string) bool { return slices.Contains(e.beside, o) })
	if len(others) > 0 {
		f.Other = others[0]
	}
	switch {
	case !recorded:
		f.Reason = Unwritten
		if !f.Withheld {
			return nil
		}
	case !known:
		f.Reason = Unknown
	case e.digest != d.Digest():
		f.Reason = Differs
	case f.Other != "":
		f.Reason = Shadows
	default:
		return nil
	}
	return f
}

// errSecret says why a definition is not pinned.
var errSecret = errors.New("it contains a secret of the configuration")

// unpinnable returns why a definition cannot be written down; known says that it, or another
// one of that name, is.
func (s *state) unpinnable(d *Definition, known bool) error {
	if err := d.Ambiguous(); err != nil {
		return err
	}
	if !known && s.secret(d.canonical()) {
		return errSecret
	}
	return nil
}

// general returns what is to be said about a server as such, nil if there is nothing.
func (s *state) general(server *serverState) *Finding {
	f := &Finding{Item: Item{Server: server.Name, Surface: About}, Withheld: server.Mode == Enforce}
	switch {
	case s.fault != nil:
		f.Reason, f.Err = Unreadable, s.fault
	case server.about != nil && server.about.Reason == Renamed:
		return server.about
	case server.unwritten != nil:
		f.Reason, f.Err = Unwritten, server.unwritten
	default:
		return nil
	}
	return f
}

// problem is general, or else what is to be said about the instructions.
func (s *state) problem(server *serverState) *Finding {
	if f := s.general(server); f != nil {
		return f
	}
	return server.about
}

// Problems returns what is to be said about servers as such, in the order of the
// configuration.
func (k *Keeper) Problems() []*Finding {
	s := k.now.Load()
	var all []*Finding
	for _, server := range s.servers {
		if f := s.problem(server); f != nil {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b *Finding) int { return s.servers[a.Server].rank - s.servers[b.Server].rank })
	return all
}

// CheckInstructions returns what is to be said about the instructions in a server's raw
// handshake; nil if there is nothing. If they are Withheld, clients must not get them.
func (k *Keeper) CheckInstructions(server string, handshake []byte) *Finding {
	s := k.now.Load()
	at := s.servers[server]
	if at == nil {
		return nil
	}
	if f := s.general(at); f != nil {
		return f
	}
	f := s.compareHandshake(at, about(handshake))
	if _, recorded := s.lock.servers[server][About]; !recorded && at.Mode == Enforce {
		return &Finding{Item: Item{Server: server, Surface: About}, Reason: Unwritten, Withheld: true}
	}
	return f
}

// compareHandshake returns what is to be said about what a server says about itself; nil if
// that is nothing, or was never written down.
func (s *state) compareHandshake(server *serverState, is entry) *Finding {
	was, recorded := s.lock.servers[server.Name][About][""]
	f := &Finding{
		Item: Item{Server: server.Name, Surface: About}, Withheld: server.Mode == Enforce,
		was: was.canonical, is: is.canonical,
	}
	switch {
	case !recorded && server.Mode == Enforce && s.secret(is.canonical):
		f.Reason, f.Err, f.is = Unpinnable, errSecret, nil
	case !recorded:
		return nil
	case ownName(was) != ownName(is):
		f.Reason = Renamed
	case instructions(was) != instructions(is):
		f.Reason = Differs
	default:
		return nil
	}
	return f
}

func instructions(e entry) string {
	text, _ := wire.GetString(e.canonical, "instructions")
	return text
}

func ownName(e entry) string {
	name, _ := wire.GetString(e.canonical, "name")
	return name
}

// compareAbout compares what servers last said about themselves.
func (s *state) compareAbout(offered func(server string, surface wire.Surface) map[string]*Definition) {
	for _, server := range s.servers {
		server.about = nil
		if d := offered(server.Name, About)[""]; d != nil {
			server.about = s.compareHandshake(server, entry{canonical: d.canonical()})
		}
	}
}

// report logs problems of servers that are new.
func (k *Keeper) report(now *state) {
	before := k.now.Load()
	for name, server := range now.servers {
		f := now.problem(server)
		if f == nil {
			continue
		}
		if was := before.servers[name]; was != nil {
			if old := before.problem(was); old != nil && old.Text() == f.Text() {
				continue
			}
		}
		k.opts.Log.Warn(f.Text() + " (" + f.Remedy() + ")")
	}
}

// Close ends the following of the file, and waits for it.
func (k *Keeper) Close() {
	k.changing.Lock()
	stop := k.stop
	k.changing.Unlock()
	stop()
	k.following.Wait()
}
