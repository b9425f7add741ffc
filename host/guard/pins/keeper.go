package pins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Mode is the effect of pins.
type Mode string

// The modes.
const (
	Off     Mode = "off"     // nothing is compared or written
	Warn    Mode = "warn"    // changes are reported
	Enforce Mode = "enforce" // and changed definitions may not be used until they are accepted
)

// Settings say which servers are pinned, and where.
type Settings struct {
	// Path is the file. With Shared, the file is a copy.
	Path string
	// Shared has the pins of a fleet; nil: no fleet.
	Shared Source
	// Seed is the file with the pins from before the fleet, with which the fleet's pins begin; ""
	// for none.
	Seed string
	// Servers are the servers that are not disabled, in the order of the configuration.
	Servers []ServerSettings
	// Reserved are the names of our own tools.
	Reserved []string
	// Public returns the public name of a tool or prompt, from the prefix of its server and the
	// server's own name. Nil: prefix and name in a row.
	Public func(prefix, own string) string
	// Secret reports whether a definition contains a secret of the configuration, and so must not
	// be recorded. Nil: no secrets exist.
	Secret func(definition []byte) bool
}

// ServerSettings are the settings of a server.
type ServerSettings struct {
	Name   string
	Prefix string // of the names of the server's tools and prompts
	Mode   Mode
}

// Options of a Keeper. All must be set but ReadOnly.
type Options struct {
	// ReadOnly forbids all writes of the file: unpinned definitions are trusted while this process
	// runs.
	ReadOnly bool
	// OnChange is called, without locks held, when the result of Check may have changed.
	OnChange func()
	Log      *slog.Logger
}

// Keeper holds the pins of a running proxy: the first list of a server is trusted and recorded, and
// later lists are compared with the record. Concurrent use is safe.
type Keeper struct {
	opts Options
	now  atomic.Pointer[state]

	// changing serializes the changes of now. The lock is held while the file is read and written.
	changing sync.Mutex

	mu     sync.Mutex // guards offers; a leaf
	offers map[string]map[wire.Surface]map[string]*Definition

	stop      context.CancelFunc
	following sync.WaitGroup
}

// state is the knowledge of a Keeper. A state does not change.
type state struct {
	path     string
	shared   Source // nil: the file is all
	seed     string
	reserved []string // names of our own tools
	public   func(prefix, own string) string
	secret   func([]byte) bool       // Settings.Secret; not nil
	servers  map[string]*serverState // servers whose mode is not off
	lock     *Lock
	// fault is why the file cannot be read; nil if the file can be read.
	fault error
	// existed marks a file that was seen before: its later absence is no first use.
	existed bool
	looks   map[look][]owner
	seen    fingerprint // of the file
}

// serverState is a server whose mode is not off.
type serverState struct {
	ServerSettings
	rank      int      // in the order of the configuration
	about     *Finding // the finding about the handshake; nil for none
	unwritten error    // why the server's offer is not recorded; nil if recorded
}

// look is the look of the public name of a tool or prompt.
type look struct {
	surface wire.Surface
	text    string
}

// owner is a pinned tool or prompt, or a built-in tool.
type owner struct {
	rank         int
	server, name string
	similar      []string // see entry
}

func (o owner) String() string { return o.server + "." + o.name }

// builtinServer stands for the server of the built-in tools in [Finding.Other].
const builtinServer = "builtin"

// NewKeeper returns a Keeper without pins until Configure. The caller must Close the Keeper.
func NewKeeper(opts Options) *Keeper {
	k := &Keeper{opts: opts, offers: map[string]map[wire.Surface]map[string]*Definition{}, stop: func() {}}
	k.now.Store(&state{lock: New()})
	return k
}

// Configure sets the pinned servers, and reads the file if any server is pinned.
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

// newState returns a state without any comparison.
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

// change derives a new state from the current state, and uses it.
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

// findLooks returns the looks of the names of pinned tools and prompts.
func (s *state) findLooks() map[look][]owner {
	all := map[look][]owner{}
	add := func(surface wire.Surface, texts []string, o owner) {
		for _, text := range texts {
			at := look{surface, text}
			all[at] = append(all[at], o)
		}
	}
	for _, name := range s.reserved {
		add(wire.Tools, looks(name), owner{rank: -1, server: builtinServer, name: name})
	}
	for _, server := range s.servers {
		for _, surface := range []wire.Surface{wire.Tools, wire.Prompts} {
			for name, e := range s.lock.servers[server.Name][surface] {
				add(surface, s.looksOf(server, name), owner{server.rank, server.Name, name, e.similar})
			}
		}
	}
	return all
}

// looksOf returns the looks of a tool or prompt: of its public name, and of the name before
// characters were cut or replaced.
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

// taken returns the items of other servers with a look in common, as sorted "server.name" without
// duplicates. If pinned is set, only servers earlier in the configuration count, without the items
// that were accepted as similar.
func (s *state) taken(server *serverState, surface wire.Surface, name string, pinned bool) []string {
	if surface == wire.Templates {
		return nil // their URIs are compared as they are
	}
	var others []string
	for _, text := range s.looksOf(server, name) {
		for _, o := range s.looks[look{surface, text}] {
			accepted := slices.Contains(o.similar, server.Name+"."+name)
			if o.server != server.Name && (!pinned || o.rank < server.rank && !accepted) {
				others = append(others, o.String())
			}
		}
	}
	slices.Sort(others)
	return slices.Compact(others)
}

// Mode returns the mode of the pins of a server.
func (k *Keeper) Mode(server string) Mode {
	if s := k.now.Load().servers[server]; s != nil {
		return s.Mode
	}
	return Off
}

// Check returns the finding about a definition that a server offers, under the server's own name;
// nil for none. Check does not block.
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
			return nil // Problems reports the server once
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
	others = slices.DeleteFunc(others, func(o string) bool { return slices.Contains(e.similar, o) })
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

// unpinnable returns why a definition cannot be recorded; known means that the lock has a definition of
// the same name.
func (s *state) unpinnable(d *Definition, known bool) error {
	if err := d.Ambiguous(); err != nil {
		return err
	}
	if !known && s.secret(d.canonical()) {
		return errSecret
	}
	return nil
}

// general returns the finding about a server as a whole, nil for none.
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

// problem is general, or else the finding about the instructions.
func (s *state) problem(server *serverState) *Finding {
	if f := s.general(server); f != nil {
		return f
	}
	return server.about
}

// Problems returns the findings about servers as a whole, in the order of the configuration.
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

// CheckInstructions returns the finding about the instructions in a server's raw handshake; nil for
// none. If the finding is Withheld, clients must not get the instructions.
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

// compareHandshake returns the finding about a server's description of itself; nil for none, or
// without a record.
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

// compareAbout compares the last handshakes of servers.
func (s *state) compareAbout(offered func(server string, surface wire.Surface) map[string]*Definition) {
	for _, server := range s.servers {
		server.about = nil
		if d := offered(server.Name, About)[""]; d != nil {
			server.about = s.compareHandshake(server, entry{canonical: d.canonical()})
		}
	}
}

// report logs new problems of servers.
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

// Close stops following the file, and waits for the end.
func (k *Keeper) Close() {
	k.changing.Lock()
	stop := k.stop
	k.changing.Unlock()
	stop()
	k.following.Wait()
}

// writeWait is how long to wait for other processes that write the file.
const writeWait = 10 * time.Second

// Offer passes a server's list of a surface to the Keeper, before the first use by any client.
// items are raw definitions, which the Keeper keeps. The first list of a server is trusted and
// recorded before Offer returns.
func (k *Keeper) Offer(server string, surface wire.Surface, items [][]byte) {
	defs := make(map[string]*Definition, len(items))
	for _, raw := range items {
		if name, ok := wire.GetString(raw, surface.Key()); ok {
			defs[name] = NewDefinition(raw)
		}
	}
	k.offer(server, surface, defs)
}

// OfferHandshake is Offer for the raw handshake of a server.
func (k *Keeper) OfferHandshake(server string, handshake []byte) {
	k.offer(server, About, map[string]*Definition{"": NewDefinition(about(handshake).canonical)})
}

func (k *Keeper) offer(server string, surface wire.Surface, defs map[string]*Definition) {
	k.mu.Lock()
	if k.offers[server] == nil {
		k.offers[server] = map[wire.Surface]map[string]*Definition{}
	}
	k.offers[server][surface] = defs
	k.mu.Unlock()
	now := k.now.Load()
	if now.servers[server] == nil {
		return
	}
	if _, recorded := now.lock.servers[server][surface]; !recorded || surface == About {
		k.change(func(*state) {})
	}
}

// offered returns a server's last offer of a surface; nil for none.
func (k *Keeper) offered(server string, surface wire.Surface) map[string]*Definition {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offers[server][surface]
}

// trust adds to a new state the offered lists that the lock does not have, and writes them. The
// caller holds k.changing.
func (k *Keeper) trust(now *state) {
	for _, server := range now.servers {
		server.unwritten = nil
	}
	first := k.firstUse(now)
	if now.fault != nil || len(first) == 0 {
		return
	}
	if k.opts.ReadOnly {
		now.lock = now.lock.Clone()
		now.add(first)
		return
	}
	err := now.update(func() bool {
		now.looks = now.findLooks()
		first = k.firstUse(now) // another process may have written a part
		now.add(first)
		return len(first) > 0
	})
	if err == nil || now.fault != nil {
		return
	}
	now.looks = now.findLooks()
	for _, list := range first {
		now.servers[list.Server].unwritten = err
	}
}

// firstUse is a trusted list.
type firstUse struct {
	Item // without Name
	defs map[string]*Definition
}

// firstUse returns the offered lists that the lock does not have.
func (k *Keeper) firstUse(now *state) []firstUse {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []firstUse
	for name := range now.servers {
		for surface, defs := range k.offers[name] {
			if _, recorded := now.lock.servers[name][surface]; !recorded && surface != wire.Resources {
				all = append(all, firstUse{Item{Server: name, Surface: surface}, defs})
			}
		}
	}
	return all
}

// add adds lists to the lock, which is not shared. An item similar to another server's tool or
// prompt is left out, and counts as new until a person accepts it. Items that cannot be pinned are
// left out, too.
func (s *state) add(first []firstUse) {
	for _, list := range first {
		server, defs := s.servers[list.Server], s.lock.surface(list.Server, list.Surface)
		size := 0
		for name, d := range list.defs {
			size += len(d.canonical())
			if s.unpinnable(d, false) != nil || size > maxList || len(s.taken(server, list.Surface, name, false)) > 0 {
				continue
			}
			defs[name] = entry{canonical: d.canonical(), digest: d.Digest()}
			if list.Surface == wire.Tools || list.Surface == wire.Prompts {
				for _, text := range s.looksOf(server, name) {
					at := look{list.Surface, text}
					s.looks[at] = append(s.looks[at], owner{rank: server.rank, server: server.Name, name: name})
				}
			}
		}
	}
}

// update changes the file under the lock of all processes: update reads the file into s.lock, and
// writes s.lock if f, which changes s.lock, returns true. After an error, s.lock is the content of
// the file, as far as readable.
func (s *state) update(f func() bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeWait)
	defer cancel()
	if s.shared != nil {
		return s.updateShared(ctx, f)
	}
	unlock, err := change.Lock(ctx, s.path)
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", s.path, err)
	}
	defer unlock()
	if s.read(nil); s.fault != nil {
		return s.fault
	}
	read := s.lock
	s.lock = read.Clone()
	if !f() {
		return nil
	}
	if err := s.lock.Write(regular.Place{Name: s.path}); err != nil {
		s.lock = read
		return err
	}
	s.seen, s.existed = fingerprintOf(s.path), true
	return nil
}

// read reads the file into s.lock, or sets s.fault. A file unchanged since before, which may be
// nil, is not read again. A missing file is an empty lock, unless the file existed before: a
// checkout may be replacing the file, and no person has decided to trust the current offers of the
// servers.
func (s *state) read(before *state) {
	s.fault, s.lock = nil, New()
	s.seen = fingerprintOf(s.path)
	if before != nil && before.path == s.path && before.fault == nil && before.seen.same(s.seen) {
		s.lock = before.lock
		return
	}
	l, err := Read(context.Background(), regular.Place{Name: s.path})
	missing := errors.Is(err, fs.ErrNotExist)
	s.existed = s.existed || !missing
	switch {
	case missing && s.existed:
		s.fault = fmt.Errorf("lock file %s is gone", s.path)
	case missing:
	case err != nil:
		s.fault = err
	default:
		s.lock = l
	}
}

// pollInterval is the time between two looks of a Keeper for changes of the file. A look is a
// single system call, and works on every file system.
const pollInterval = time.Second

// retryEvery is the number of looks before a Keeper tries a failed write again.
const retryEvery = 30

// fingerprint tells whether a file has been replaced or changed. The zero value is no file.
type fingerprint struct{ info fs.FileInfo }

func (f fingerprint) same(g fingerprint) bool {
	if f.info == nil || g.info == nil {
		return f.info == g.info
	}
	return os.SameFile(f.info, g.info) && f.info.Size() == g.info.Size() && f.info.ModTime().Equal(g.info.ModTime())
}

func fingerprintOf(path string) fingerprint {
	info, err := os.Stat(path)
	if err != nil {
		return fingerprint{}
	}
	return fingerprint{info}
}

// follow begins or ends to follow the file. The caller holds k.changing.
func (k *Keeper) follow(needed bool, shared Source) {
	k.stop()
	k.stop = func() {}
	if !needed {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	if shared != nil {
		if k.opts.ReadOnly {
			return // the fetched pins count
		}
		k.following.Go(func() {
			shared.Follow(ctx, func(data []byte) { k.received(ctx, data) })
		})
	}
	k.following.Go(func() {
		look := time.NewTicker(pollInterval)
		defer look.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			now := k.now.Load()
			retry := n%retryEvery == 0 && now.lacks()
			switch {
			case now.shared != nil && retry:
				k.change(func(*state) {})
			case now.shared == nil && (retry || !fingerprintOf(now.path).same(now.seen)):
				k.change(func(now *state) { now.read(nil) })
			}
		}
	})
}

// lacks reports whether something could not be written down or read.
func (s *state) lacks() bool {
	for _, server := range s.servers {
		if server.unwritten != nil {
			return true
		}
	}
	return s.fault != nil
}
