package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Snapshot is the handshake and the lists of an upstream, as raw bytes.
type Snapshot struct {
	Handshake []byte // raw result of initialize; nil before the first
	// Lists are complete, with all pages. A surface without a listing is missing.
	Lists map[wire.Surface]List
	// Late is set if the upstream was not ready in time in the last run: a client gave up waiting
	// for the upstream, or the start failed.
	Late bool
	// Verdict is the verdict about the era of the upstream's protocol, to the day.
	Verdict servers.Verdict
	// client stands for the client capabilities that the upstream was told, "" if the upstream was
	// told nothing. rest are the handshakes and lists for other clients, as in the file, with the
	// newest first.
	client string
	rest   [][]byte
}

// maxRest bounds Snapshot.rest.
const maxRest = 3

// List is a list of an upstream.
type List struct {
	Items [][]byte // raw definitions
	Meta  []byte   // raw _meta of the list; nil for none
}

// memory is the memory of the list, in bytes; see servers.Options.KeepList.
func (l List) memory() int64 {
	bytes := int64(0)
	for _, item := range l.Items {
		bytes += 3*int64(len(item)) + 1<<10
	}
	return bytes
}

func (s Snapshot) clone() Snapshot {
	s.Lists = maps.Clone(s.Lists)
	if s.Lists == nil {
		s.Lists = map[wire.Surface]List{}
	}
	return s
}

// stateless reports whether the upstream was last of the stateless era.
func (s Snapshot) stateless() bool {
	name, _ := wire.GetString(s.Handshake, "protocolVersion")
	_, ok := protocol.Stateless.Lookup(name)
	return ok
}

// snapshotKey identifies the upstream of a snapshot by a hash of the upstream's address or command,
// without secrets, so that a token can be renewed.
func snapshotKey(spec servers.Spec, secrets *config.Masker) string {
	client, scopes := "", []string(nil)
	if spec.OAuth != nil {
		client, scopes = spec.OAuth.ClientID+spec.OAuth.ClientMetadata, spec.OAuth.Scopes // never both
		if spec.OAuth.Issuer != "" {
			client += " at " + spec.OAuth.Issuer
		}
	}
	how := wire.Marshal([]any{
		spec.Transport, spec.Command, spec.Args, spec.Env, spec.Dir, spec.URL, spec.Headers, client, scopes,
	})
	sum := sha256.Sum256([]byte(secrets.Mask(string(how))))
	return hex.EncodeToString(sum[:])
}

// snapshotStore keeps the snapshots of upstreams between runs, in a file each. Anyone with write
// access to the directory may have written a file. So a file is checked like a message of the
// server, and the configuration determines which items clients see.
type snapshotStore struct {
	dir  string
	log  *slog.Logger
	read func(ctx context.Context, path string, limit int64) ([]byte, error)
}

func newSnapshotStore(dir string, log *slog.Logger) *snapshotStore {
	return &snapshotStore{dir: dir, log: log, read: regular.Read}
}

func (s *snapshotStore) path(name string) string { return filepath.Join(s.dir, name+snapshotFile) }

// load returns the snapshot of the upstream called name, if the snapshot has the key. An unreadable
// file is ignored. client is a Snapshot.client; "" takes the last saved snapshot.
func (s *snapshotStore) load(name, key, client string) (Snapshot, bool) {
	_, err := owner.Check(s.dir)
	var data []byte
	if err == nil {
		data, err = s.read(context.Background(), s.path(name), maxSnapshot)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Snapshot{}, false
	}
	var snapshot Snapshot
	same := false
	if err == nil {
		snapshot, same, err = decodeSnapshot(data, key, client)
	}
	if err != nil {
		s.log.Warn("the snapshot of an upstream cannot be used", "upstream", name, "err", err)
	}
	return snapshot, same && err == nil
}

// decodeSnapshot decodes the content of a file; same reports whether the file has the key. For
// client see load.
func decodeSnapshot(data []byte, key, client string) (s Snapshot, same bool, err error) {
	if !wire.IsObject(data) {
		return s, false, errors.New("the file is damaged")
	}
	if of, _ := wire.GetString(data, "of"); of != key {
		return s, false, nil
	}
	s.Verdict = decodeVerdict(data)
	late, _ := wire.Get(data, "late")
	s.Late, s.Lists = string(late) == "true", map[wire.Surface]List{}
	data, s.rest = choose(data, client)
	var known bool
	if s.Handshake, known = wire.Get(data, "handshake"); !known && (s.Late || s.Verdict.Era != 0 || s.rest != nil) {
		return s, true, nil // the upstream was never ready, for a client like this
	}
	s.client, _ = wire.GetString(data, "client")
	if !wire.IsObject(s.Handshake) {
		return s, true, errors.New("the file is damaged: it has no handshake")
	}
	for _, surface := range wire.Surfaces {
		raw, ok := wire.Get(data, "lists", string(surface))
		if !ok {
			continue
		}
		l, err := decodeList(surface, raw)
		if err != nil {
			return s, true, fmt.Errorf("the file is damaged: %s: %w", surface, err)
		}
		s.Lists[surface] = l
	}
	return s, true, nil
}

// choose returns the part of a file for a client, or nil, and the parts for other clients.
func choose(data []byte, client string) (chosen []byte, rest [][]byte) {
	var all [][]byte
	if handshake, ok := wire.Get(data, "handshake"); ok {
		of, _ := wire.GetString(data, "client")
		lists, _ := wire.Get(data, "lists")
		all = append(all, encodeFor(of, handshake, lists))
	}
	raw, _ := wire.Get(data, "others")
	more, _ := wire.Elements(raw)
	all = append(all, more[:min(len(more), maxRest)]...)
	at := slices.IndexFunc(all, func(entry []byte) bool {
		of, _ := wire.GetString(entry, "client")
		return client == "" || of == client
	})
	if at < 0 { // a part that depends on no client will do
		at = slices.IndexFunc(all, func(entry []byte) bool { of, _ := wire.GetString(entry, "client"); return of == "" })
	}
	for i, entry := range all {
		if i != at && wire.IsObject(entry) {
			rest = append(rest, entry)
		}
	}
	if at < 0 {
		return nil, rest
	}
	return all[at], rest
}

// encodeFor returns handshake and lists for a client as in Snapshot.rest.
func encodeFor(client string, handshake, lists []byte) []byte {
	var entry wire.Object
	entry.NonEmpty("client", client)
	entry.Raw("handshake", handshake)
	entry.Raw("lists", lists)
	return entry.Bytes()
}

// eras are the names of the eras in a file.
var eras = map[string]protocol.Era{"handshake": protocol.Handshake, "stateless": protocol.Stateless}

// decodeVerdict returns the zero Verdict if the file has no usable verdict.
func decodeVerdict(data []byte) servers.Verdict {
	name, _ := wire.GetString(data, "era")
	date, _ := wire.GetString(data, "era_found")
	at, err := time.Parse(time.DateOnly, date)
	if era := eras[name]; era != 0 && err == nil {
		only, _ := wire.Get(data, "era_only")
		return servers.Verdict{Era: era, Only: string(only) == "true", At: at}
	}
	return servers.Verdict{}
}

func encodeVerdict(file *wire.Object, v servers.Verdict) {
	for name, era := range eras {
		if era == v.Era {
			file.Text("era", name)
			file.Text("era_found", v.At.UTC().Format(time.DateOnly))
			if v.Only {
				file.Bool("era_only", true)
			}
		}
	}
}

func decodeList(surface wire.Surface, raw []byte) (List, error) {
	var l List
	items, _ := wire.Get(raw, "items")
	var err error
	if l.Items, err = wire.Elements(items); err != nil {
		return l, err
	}
	seen := make(map[string]bool, len(l.Items))
	for _, item := range l.Items {
		key, ok := wire.GetString(item, surface.Key())
		if !ok || key == "" || seen[key] {
			return l, fmt.Errorf("an item has no %s, or the same as another item", surface.Key())
		}
		seen[key] = true
	}
	l.Meta, _ = wire.Get(raw, "_meta")
	if l.Meta != nil && !wire.IsObject(l.Meta) {
		return l, errors.New("_meta is not an object")
	}
	return l, nil
}

// without returns all handshakes and lists except for a client's.
func (s Snapshot) without(client string) (rest [][]byte) {
	if s.Handshake != nil && s.client != client {
		rest = append(rest, encodeFor(s.client, s.Handshake, s.encodeLists()))
	}
	for _, entry := range s.rest {
		if of, _ := wire.GetString(entry, "client"); of != client {
			rest = append(rest, entry)
		}
	}
	return rest
}

func (s Snapshot) encodeLists() []byte {
	var lists wire.Object
	for _, surface := range wire.Surfaces {
		if l, ok := s.Lists[surface]; ok {
			var list wire.Object
			list.Raw("items", wire.Array(l.Items))
			list.Raw("_meta", l.Meta)
			lists.Raw(string(surface), list.Bytes())
		}
	}
	return lists.Bytes()
}

// encode returns the content of the file.
func (s Snapshot) encode(key string) []byte {
	var file wire.Object
	file.Text("of", key)
	if s.Handshake != nil {
		file.NonEmpty("client", s.client)
		file.Raw("handshake", s.Handshake)
		file.Raw("lists", s.encodeLists())
	}
	if s.rest != nil {
		file.Raw("others", wire.Array(s.rest[:min(len(s.rest), maxRest)]))
	}
	encodeVerdict(&file, s.Verdict)
	if s.Late {
		file.Raw("late", []byte("true"))
	}
	return append(file.Bytes(), '\n')
}

// save replaces the file of an upstream. A failure is only logged, because nothing
// depends on the file.
func (s *snapshotStore) save(name string, file []byte) { s.saveAs(name+snapshotFile, name, file) }

// saveAs is save for another file of an upstream.
func (s *snapshotStore) saveAs(file, name string, data []byte) {
	if err := s.write(filepath.Join(s.dir, file), data); err != nil {
		s.log.Warn("the snapshot of an upstream cannot be saved", "upstream", name, "err", err)
	}
}

// maxSnapshot is the size limit of a file, in bytes.
const maxSnapshot = 256 << 20

// write replaces the file atomically, because other processes may read the file at any time.
func (s *snapshotStore) write(path string, data []byte) error {
	if len(data) > maxSnapshot {
		return &regular.SizeError{Limit: maxSnapshot}
	}
	if _, err := owner.Check(s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return regular.Write(path, data, 0o600)
}

// maxGlance is the largest snapshot that RememberedTools reads, in bytes.
const maxGlance = 8 << 20

// RememberedTools returns the names of an upstream's tools at the last start, from the directory of
// Options.Dir. The names are for hints only: the snapshot may be of another server with the same
// name. An unreadable snapshot has no names.
func RememberedTools(ctx context.Context, dir, upstream string) []string {
	var names []string
	for _, item := range RememberedDefinitions(ctx, dir, upstream) {
		name, _ := wire.GetString(item, wire.Tools.Key())
		names = append(names, name)
	}
	return names
}

// RememberedDefinitions is RememberedTools for the raw definitions.
func RememberedDefinitions(ctx context.Context, dir, upstream string) [][]byte {
	if _, err := owner.Check(dir); err != nil {
		return nil
	}
	s := newSnapshotStore(dir, slog.New(slog.DiscardHandler))
	data, err := s.read(ctx, s.path(upstream), maxGlance)
	if err != nil || !wire.IsObject(data) {
		return nil
	}
	raw, _ := wire.Get(data, "lists", string(wire.Tools))
	list, err := decodeList(wire.Tools, raw)
	if err != nil {
		return nil
	}
	return list.Items
}

// introduce reads the snapshot for the now known client, if open could not. Only
// clientIdentity.adopt calls introduce, before the upstream is told about the client.
func (m *managedUpstream) introduce() {
	m.open()
	if m.waits {
		m.waits = false
		if !m.restore() {
			m.start()
		}
	}
}

// restore publishes the snapshot of an earlier run, and returns false without a snapshot. With
// NoClient restore publishes the snapshot only if the upstream is not started, because a check is
// about the current state of a server. Before the client is known, restore publishes only the parts
// that depend on no client.
func (m *managedUpstream) restore() bool {
	known, ok := m.env.snapshots.load(m.name, m.key, m.mark())
	if !ok {
		return false
	}
	m.saving.Lock()
	m.saved = sha256.Sum256(known.encode(m.key))
	m.saving.Unlock()
	m.mu.Lock()
	m.wasLate, m.known.Verdict = known.Late, known.Verdict
	begun := m.spoken != 0
	m.mu.Unlock()
	if m.waits && known.client != "" || begun {
		return false
	}
	if known.Handshake == nil || m.env.Clients == NoClient && !lazy(m.conf.Load()) {
		m.update(func(s *Snapshot) { s.Late = known.Late })
		return false
	}
	m.mu.Lock()
	m.known, m.remembered = known, true
	m.mu.Unlock()
	m.env.Receiver(m.name, m.own).OnAsleep()
	m.publishHandshake(known.Handshake)
	for surface, l := range known.Lists {
		if err := m.lists.keep(surface, l.memory()); err != nil {
			m.env.Log.Warn("a remembered list is not used", "upstream", m.name, "list", string(surface), "err", limits.Explain(err))
			continue
		}
		m.publishList(catalog.List{Surface: surface, Items: l.Items, Meta: l.Meta, Stateless: known.stateless(), Remembered: true})
	}
	return true
}

// save saves the snapshot for the next run. With NoClient, an existing snapshot is kept, because an
// upstream may offer less to a client without capabilities. The verdict in the file is always kept:
// updateVerdict saves ours, and another process may have a newer verdict.
func (m *managedUpstream) save() {
	m.saving.Lock()
	defer m.saving.Unlock()
	if m.isRetired() {
		return
	}
	now := m.snapshot()
	now.client = m.mark()
	if stored, ok := m.env.snapshots.load(m.name, m.key, now.client); ok {
		now.Verdict, now.rest = stored.Verdict, stored.without(now.client)
		if m.env.Clients == NoClient && stored.Handshake != nil {
			now = stored
			now.Late = false
		}
	}
	m.replaceFile(now)
}

// mark returns Snapshot.client for the capabilities that the upstream was told. A server of the
// stateless era was told nothing before the listing. NoClient takes any snapshot.
func (m *managedUpstream) mark() string {
	if m.env.Clients == NoClient || m.snapshot().stateless() {
		return ""
	}
	return m.client.mark()
}

// replaceFile saves a snapshot if the snapshot differs from the file. The caller holds m.saving.
func (m *managedUpstream) replaceFile(s Snapshot) {
	file := s.encode(m.key)
	if sum := sha256.Sum256(file); sum != m.saved {
		m.saved = sum
		m.env.snapshots.save(m.name, file)
	}
}

// noteLate is saveLate after a wait, but does nothing for an upstream that was closed meanwhile.
func (m *managedUpstream) noteLate() {
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if !closed {
		m.saveLate()
	}
}

// saveLate saves that the upstream was not ready in time, unless the upstream has become ready
// since. The rest of the snapshot is kept. The upstream may be closed already: callers see a
// failure, and can close the upstream, before the failure gets here.
func (m *managedUpstream) saveLate() {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.mu.Lock()
	note := !m.wasReady && !m.known.Late && !m.retired
	m.mu.Unlock()
	if !note {
		return
	}
	m.update(func(s *Snapshot) { s.Late = true })
	stored, _ := m.env.snapshots.load(m.name, m.key, m.mark())
	stored.Late = true
	m.replaceFile(stored)
}

// updateVerdict gets each verdict about the era of the upstream's protocol. The verdict is saved at
// once, because the server may not survive a question about the era.
func (m *managedUpstream) updateVerdict(v servers.Verdict) {
	m.saving.Lock()
	defer m.saving.Unlock()
	if m.isRetired() {
		return
	}
	m.update(func(s *Snapshot) { s.Verdict = v })
	stored, ok := m.env.snapshots.load(m.name, m.key, m.mark())
	if !ok && v.Era == 0 {
		return // nothing to forget
	}
	stored.Verdict = v
	m.replaceFile(stored)
}

// snapshotFile ends the names of the files with snapshots, after the name of the upstream.
const snapshotFile = ".json"

// maxRemembered is how many files of upstreams are looked at.
const maxRemembered = 10000

// RememberedFiles returns the names of the files with remembered lists in the directory of
// Options.Dir, without the files about failures.
func RememberedFiles(dir string) ([]string, error) {
	root, err := regular.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := regular.Names(root, ".", maxRemembered)
	var names []string
	for _, name := range all {
		if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() && remembers(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// remembers reports whether a name is the name of a file with remembered lists.
func remembers(name string) bool {
	return strings.HasSuffix(name, snapshotFile) && !strings.HasSuffix(name, failureFile) && !strings.HasPrefix(name, ".")
}

// ForgetFiles removes files from the result of [RememberedFiles]. A running process keeps the lists
// in memory, and writes the file again when a list changes. Without the file, clients wait for the
// upstream at the next start.
func ForgetFiles(_ context.Context, dir string, names []string) error {
	if _, err := owner.Check(dir); err != nil {
		return fmt.Errorf("%w (remove the files yourself)", err)
	}
	root, err := regular.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var failed []error
	for _, name := range names {
		if !remembers(name) {
			return fmt.Errorf("%s: no file with remembered lists has this name", name)
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
