package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Options are the options of a run.
type Options struct {
	// Version is the version of the product.
	Version string
	// Log makes the log of a file, given the masker of the file's secrets; nil: no log.
	Log func(*config.Masker) *slog.Logger
	// CacheDir keeps compiled guests between runs; "" for no cache.
	CacheDir string
	// Load says how files are read.
	Load LoadOptions
	// Filter chooses checks by name, and Tags by their tags; nil chooses all.
	Filter func(name string) bool
	Tags   func(tags []string) bool
	// Jobs is how many checks run concurrently; 0 means 1.
	Jobs int
	// FailFast starts no further check after a check without success.
	FailFast bool
	// Timeout is for checks whose file sets none; 0 means DefaultTimeout.
	Timeout time.Duration
	// Record runs scripts that have a cassette against the real servers, and writes the cassettes
	// and the locks.
	Record bool
	// Update writes the answers into the files as expectations.
	Update bool
	// Coverage, if not nil, starts the servers of all files, and says which of their tools
	// the checks have called.
	Coverage *report.Coverage
	// Wrote, if not nil, is called with each written file and a description of the content.
	Wrote func(path, content string)
	// Adjust, if not nil, may change the configuration of a file before its servers are started.
	Adjust func(*config.Config)
	// Note, if not nil, is called with notes for people about a file that is run.
	Note func(path, text string)

	newSandbox func(sandbox.Options) *sandbox.Sandbox // for tests; nil: sandbox.New
}

// Runner runs the checks of files. A Runner can make several runs, in sequence.
type Runner struct {
	opts Options

	box     *sandbox.Sandbox // created on first use
	making  sync.Mutex       // guards box
	boxLogs *slog.Logger
}

// NewRunner returns a Runner. The caller must close the Runner.
func NewRunner(opts Options) *Runner {
	if opts.Log == nil {
		opts.Log = func(*config.Masker) *slog.Logger { return slog.New(slog.DiscardHandler) }
	}
	return &Runner{opts: opts, boxLogs: opts.Log(&config.Masker{})}
}

// Close frees the shared resources of the runs.
func (r *Runner) Close() error {
	r.making.Lock()
	defer r.making.Unlock()
	if r.box == nil {
		return nil
	}
	return r.box.Close()
}

// sandbox returns the sandbox for scripts of files that do not change its limits.
func (r *Runner) sandbox() *sandbox.Sandbox {
	r.making.Lock()
	defer r.making.Unlock()
	if r.box == nil {
		newSandbox := r.opts.newSandbox
		if newSandbox == nil {
			newSandbox = sandbox.NewIdle
		}
		r.box = newSandbox(sandbox.Options{CacheDir: r.opts.CacheDir, Log: r.boxLogs, Budget: budget.New(0)})
	}
	return r.box
}

// ParseFilter reads a filter of check names: "/regexp/", a pattern with * and ?, or part of
// a name.
func ParseFilter(text string) (func(name string) bool, error) {
	switch {
	case text == "":
		return nil, nil
	case len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/':
		re, err := regexp.Compile(text[1 : len(text)-1])
		if err != nil {
			return nil, fmt.Errorf("%q is not a regular expression: %w", text, err)
		}
		return re.MatchString, nil
	case strings.ContainsAny(text, "*?["):
		if !glob.Valid(text) {
			return nil, fmt.Errorf("%q is not a pattern (* stands for any text, ? for one character)", text)
		}
		return func(name string) bool { return glob.Match(text, name) }, nil
	}
	return func(name string) bool { return strings.Contains(name, text) }, nil
}

// Run runs the checks of files. The results go to w in the order of the files and their checks,
// each as soon as the results before are known. Run does not close w. The error is from w, or the
// cause of ctx.
func (r *Runner) Run(ctx context.Context, paths []string, w report.Writer) (report.Summary, error) {
	begun := time.Now()
	run := &run{Runner: r, out: w, failed: &atomic.Bool{}}
	if r.opts.Coverage != nil {
		run.summary.Coverage = &report.Coverage{Min: r.opts.Coverage.Min}
	}
	for _, p := range paths {
		run.files = append(run.files, run.load(ctx, p))
	}
	err := run.runAll(ctx)
	run.summary.Duration = time.Since(begun)
	return run.summary, err
}

// run is a run of files.
type run struct {
	*Runner
	out     report.Writer
	files   []*fileRun
	failed  *atomic.Bool
	summary report.Summary

	recordings recordings
	locking    sync.Mutex // held while a lock is written
}

// fileRun is a file in a run.
type fileRun struct {
	path     string
	file     *File // nil if err is set
	err      error
	checks   []*checkRun // the chosen checks, in order
	live     *live
	mocked   *mocked
	masker   *config.Masker
	mask     func(string) string
	redact   *config.Redactor
	captured captured
	servers  []report.Server // set once all checks have ended
	began    atomic.Bool     // a check or a setup has begun
	begun    time.Time
	left     atomic.Int32 // checks that have not ended
}

// checkRun is a check in a run.
type checkRun struct {
	*Check
	planned  *Check // Check as in the file, before values of the run are filled in
	fileRun  *fileRun
	after    []*checkRun // run before this check
	started  atomic.Bool
	answer   *answer
	recorded []cassette.Interaction // interactions for the check's cassette
	keep     bool                   // whether they are to be written
	edits    []edit                 // to the check's file
	result   report.Result
	done     chan struct{} // closed once result is set
}

// load reads a file and selects its checks.
func (r *run) load(ctx context.Context, path string) *fileRun {
	f := &fileRun{path: path, begun: time.Now()}
	if f.file, f.err = Load(path, r.reading(ctx)); f.err != nil {
		return f
	}
	if r.opts.Timeout > 0 && !f.file.ownTimeout {
		f.file.Timeout = r.opts.Timeout
	}
	f.masker = f.file.Config.NewMasker()
	log := r.opts.Log(f.masker)
	f.mask, f.redact = f.masker.Mask, config.NewRedactor(f.masker, nil)
	s := &scripts{savedTools: &savedTools{ctx: ctx, cfg: f.file.Config, disabled: f.file.offline, log: log}, checks: f.file.Checks}
	f.live = &live{file: f.file, opts: &r.opts, scripts: s, sandbox: r.sandbox, log: log, mask: f.mask}
	f.mocked = &mocked{scripts: s, sandbox: r.sandbox, log: log, cfg: f.file.Config}
	f.choose(&r.opts)
	f.left.Store(int32(len(f.checks)))
	if f.file.offline && f.file.extends != "" && r.opts.Note != nil {
		r.opts.Note(path, "its configuration, "+f.file.extends+", is not read with --offline")
	}
	return f
}

// reading returns the options for reading files in this run; ctx bounds the reading.
func (r *run) reading(ctx context.Context) LoadOptions {
	opts := r.opts.Load
	opts.Load.Context = ctx
	return opts
}

// runAll runs the checks of all files.
func (r *run) runAll(outer context.Context) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	queue := newSchedule(r.files)
	var workers sync.WaitGroup
	for range max(1, r.opts.Jobs) {
		workers.Go(func() {
			for c := queue.next(); c != nil; c = queue.next() {
				r.check(ctx, c)
				queue.ended(c)
			}
		})
	}
	err := r.writeResults()
	cancel(err)
	workers.Wait()
	if err == nil && r.opts.Record {
		err = r.recordings.write(outer, r.fullyRecorded(), r.wrote)
	}
	if err == nil && r.opts.Update {
		err = r.update(outer)
	}
	for _, f := range r.files {
		f.end()
	}
	if err == nil && outer.Err() != nil {
		err = context.Cause(outer)
	}
	return err
}

// update writes the files whose expectations have changed.
func (r *run) update(ctx context.Context) error {
	var errs []error
	for _, f := range r.files {
		var edits []edit
		for _, c := range f.checks {
			edits = append(edits, c.edits...)
		}
		if len(edits) == 0 {
			continue
		}
		if err := f.rewrite(r.reading(ctx), edits); err != nil {
			errs = append(errs, err)
			continue
		}
		r.wrote(f.path, plural(len(edits), "expectation"))
	}
	return errors.Join(errs...)
}

// fullyRecorded returns the cassettes for which every check that uses them was recorded.
func (r *run) fullyRecorded() map[string]bool {
	complete := map[string]bool{}
	for _, f := range r.files {
		if f.file == nil {
			continue
		}
		for _, c := range f.file.Checks {
			if c.Mock == nil || c.Mock.File == "" {
				continue
			}
			at := slices.IndexFunc(f.checks, func(made *checkRun) bool { return made.planned == c })
			before, seen := complete[c.Mock.File]
			complete[c.Mock.File] = at >= 0 && f.checks[at].keep && (before || !seen)
		}
	}
	return complete
}

func (r *run) wrote(path, content string) {
	if r.opts.Wrote != nil {
		r.opts.Wrote(path, content)
	}
}

// end releases the resources of the checks of a file.
func (f *fileRun) end() {
	if f.live != nil {
		f.live.close()
	}
}

// redactJSON replaces the secrets in JSON, which stays JSON.
func (f *fileRun) redactJSON(raw []byte) []byte {
	raw, _ = f.redact.JSON(raw)
	return raw
}

// records reports whether the answers of a check are recorded.
func (r *run) records(c *checkRun) bool { return r.opts.Record && c.Mock != nil && c.Mock.File != "" }

// answerOf gets the answer to a check.
func (r *run) answerOf(ctx context.Context, c *checkRun) (*answer, error) {
	if r.opts.Load.Offline {
		mocked, err := c.offline(c.fileRun.file)
		if err != nil {
			return nil, err
		}
		return c.fileRun.mocked.call(ctx, mocked, c.fileRun.file)
	}
	switch {
	case c.Server != "":
		return c.fileRun.live.offers(ctx, c.Check)
	case r.records(c):
		a, made, err := c.fileRun.live.record(ctx, c.Check)
		c.recorded = made
		return a, err
	case c.Mock != nil:
		return c.fileRun.mocked.call(ctx, c.Check, c.fileRun.file)
	}
	return c.fileRun.live.call(ctx, c.Check)
}

// writeResults passes the results to the writer, in order.
func (r *run) writeResults() error {
	for _, f := range r.files {
		out := report.File{Path: f.path, Err: f.err}
		for _, c := range f.checks {
			<-c.done
			out.Results = append(out.Results, c.result)
			if err := r.out.Result(c.result); err != nil {
				return err
			}
		}
		out.Duration, out.Servers = time.Since(f.begun), f.servers
		if f.file != nil {
			out.Digest, out.Stale = f.file.digest(), f.file.staleSnapshots()
		}
		r.summary.Add(out)
		if err := r.out.File(out); err != nil {
			return err
		}
	}
	return nil
}

// choose decides which checks of the file run: the checks that the options choose, the checks whose
// captured values they need, and then also setup and teardown.
func (f *fileRun) choose(opts *Options) {
	chosen := map[*Check]bool{}
	for _, c := range f.file.Checks {
		if c.Phase == Main && (opts.Filter == nil || opts.Filter(c.Name)) && (opts.Tags == nil || opts.Tags(c.Tags)) {
			f.file.include(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return
	}
	for _, c := range f.file.Checks {
		if c.Phase == Setup {
			f.file.include(chosen, c)
		}
	}
	runs := map[*Check]*checkRun{}
	var setup *checkRun // the last setup
	for _, c := range f.file.Checks {
		if !chosen[c] && c.Phase != Teardown {
			continue
		}
		made := &checkRun{Check: c, planned: c, fileRun: f, done: make(chan struct{})}
		switch {
		case c.Phase == Teardown:
			made.after = slices.Clone(f.checks)
		case setup != nil:
			made.after = []*checkRun{setup}
		}
		if c.Phase == Setup {
			setup = made
		}
		for _, name := range c.needs {
			if from := runs[f.file.captures[name].check]; from != nil {
				made.after = append(made.after, from)
			}
		}
		runs[c] = made
		f.checks = append(f.checks, made)
	}
}

// include adds a check and the checks whose captured values it needs. These come earlier in the
// file, so the recursion ends.
func (f *File) include(chosen map[*Check]bool, c *Check) {
	if chosen[c] {
		return
	}
	chosen[c] = true
	for _, name := range c.needs {
		if from := f.captures[name].check; from != nil {
			f.include(chosen, from)
		}
	}
}

// schedule gives checks to workers: in the order of the files, but each only after the end of the
// checks that have to run before.
type schedule struct {
	mu      sync.Mutex // guards the fields below
	changed sync.Cond  // a check has ended
	waiting []*checkRun
	over    map[*checkRun]bool
}

func newSchedule(files []*fileRun) *schedule {
	s := &schedule{over: map[*checkRun]bool{}}
	s.changed.L = &s.mu
	for _, f := range files {
		s.waiting = append(s.waiting, f.checks...)
	}
	return s
}

// next returns the next check to run, after waiting if necessary, and nil at the end. The caller
// must call ended for the check.
func (s *schedule) next() *checkRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 {
		if at := slices.IndexFunc(s.waiting, s.ready); at >= 0 {
			c := s.waiting[at]
			s.waiting = slices.Delete(s.waiting, at, at+1)
			return c
		}
		s.changed.Wait() // a running check comes before the first waiting check
	}
	return nil
}

// ready reports whether a check can run. The caller holds s.mu.
func (s *schedule) ready(c *checkRun) bool {
	return !slices.ContainsFunc(c.after, func(before *checkRun) bool { return !s.over[before] })
}

// ended marks a check as run.
func (s *schedule) ended(c *checkRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[c] = true
	s.changed.Broadcast()
}

var tagPattern = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$`)

// readTags reads an array of tags.
func readTags(s *config.Section, key string) []string {
	var tags []string
	for i, tag := range s.Strings(key) {
		if !tagPattern.MatchString(tag) {
			s.Problem(fmt.Sprintf("%s[%d]", key, i), "%q is not a tag (use letters, digits and _ . : / -)", tag)
		} else if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// ParseTags reads the tags that checks must have: at least one of the tags of list, if any, and
// none of the tags with ! before them. An item can be several tags with commas between them. The
// result is nil if list is empty.
func ParseTags(list []string) (func(tags []string) bool, error) {
	var want, refuse []string
	for _, item := range list {
		for tag := range strings.SplitSeq(item, ",") {
			name, not := strings.CutPrefix(strings.TrimSpace(tag), "!")
			switch {
			case !tagPattern.MatchString(name):
				return nil, fmt.Errorf("%q is not a tag (want NAME or !NAME)", tag)
			case not:
				refuse = append(refuse, name)
			default:
				want = append(want, name)
			}
		}
	}
	for _, tag := range want {
		if slices.Contains(refuse, tag) {
			return nil, errors.New("no check can have the tag " + tag + " and not have it")
		}
	}
	if want == nil && refuse == nil {
		return nil, nil
	}
	return func(tags []string) bool {
		has := func(tag string) bool { return slices.Contains(tags, tag) }
		return (want == nil || slices.ContainsFunc(want, has)) && !slices.ContainsFunc(refuse, has)
	}, nil
}

// Planned is a check that would run.
type Planned struct {
	Name  string   `json:"name"`
	Phase string   `json:"phase"` // "setup", "check" or "teardown"
	Line  int      `json:"line"`  // in the file, from 1
	Tags  []string `json:"tags"`
	Row   int      `json:"row"` // from 1; 0 if the check has no rows
	// Call is the tool of a call, Server the server of a check of lists; "" where absent.
	Call   string `json:"call"`
	Server string `json:"server"`
	// Needs are the names of the checks whose captured values the check needs.
	Needs []string `json:"needs"`
	// Skip is why the check will be skipped; "" for a check that will run.
	Skip string `json:"skip"`
}

// PlannedFile is a file of checks that would run.
type PlannedFile struct {
	Path   string
	Err    error // the file is wrong; see report.File
	Checks []Planned
}

// List returns the checks that Run would run, in the same order, without secrets. List starts no
// process, and reads the files, with their schemas, rows and configurations.
func (r *Runner) List(ctx context.Context, paths []string) []PlannedFile {
	listing := &run{Runner: r}
	var files []PlannedFile
	for _, path := range paths {
		f := listing.load(ctx, path)
		made := PlannedFile{Path: path, Err: f.err, Checks: []Planned{}}
		for _, c := range f.checks {
			made.Checks = append(made.Checks, c.plan())
		}
		files = append(files, made)
	}
	return files
}

func (c *checkRun) plan() Planned {
	mask := c.fileRun.mask
	p := Planned{
		Name: mask(c.Name), Phase: c.Phase.key(), Line: c.Line, Tags: append([]string{}, c.Tags...), Row: c.Row,
		Server: c.Server, Needs: []string{}, Skip: mask(c.Skip),
	}
	if c.Server == "" {
		p.Call = mask(cmp.Or(c.Call, c.toolName()))
	}
	for _, name := range c.needs {
		if from := mask(c.fileRun.file.captures[name].check.Name); !slices.Contains(p.Needs, from) {
			p.Needs = append(p.Needs, from)
		}
	}
	return p
}
