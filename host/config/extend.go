package config

import "slices"

// extended is a configuration that a file extends.
type extended struct {
	config   *Config
	problems []*Problem
	unset    map[string][]*Problem // variables that are not set, by upstream
}

// Extend makes a configuration file the base of the file that is being read: what the file
// does not set itself is as there, and an upstream of the file replaces the one there with
// the same name. Variables have the values that they have in the file. Problems with the
// configuration are reported with those of the file. opts is that of LoadWithin.
func (s *Section) Extend(opts LoadOptions, path string) {
	r := s.t.r
	b := &extended{config: newConfig(), unset: map[string][]*Problem{}}
	r.extended = b
	l := &loader{ctx: opts.context(), getenv: r.getenv, home: r.home, located: true, policies: r.policies}
	if r.unset != nil {
		l.unset = func(upstream string, p *Problem) { b.unset[upstream] = append(b.unset[upstream], p) }
	}
	data, err := readCapped(l.ctx, path)
	if problem := l.parse(b.config, path, data, err); problem != nil {
		l.problems = append(l.problems, problem)
	}
	b.problems = l.problems
}

// Variables gives variables of the environment other values in what is read from now on.
func (s *Section) Variables(values map[string]string) {
	before := s.t.r.getenv
	s.t.r.getenv = func(name string) (string, bool) {
		if value, ok := values[name]; ok {
			return value, true
		}
		return before(name)
	}
}

// report returns the problems without the secrets of the file and the configuration. The
// path of the configuration can have one.
func (b *extended) report(secrets []string) []*Problem {
	var m Masker
	m.Add(secrets...)
	m.Add(b.config.Secrets...)
	for _, p := range b.problems {
		p.File, p.Key, p.Text = m.Mask(p.File), m.Mask(p.Key), m.Mask(p.Text)
	}
	return b.problems
}

// decode reads the top level of the file into c, with b for what it does not set.
func (b *extended) decode(top *table, c *Config) {
	r, path := top.r, c.Path
	for key, shown := range c.shown {
		b.config.shown[key] = shown
	}
	*c = *b.config
	c.Path, c.json = path, false
	r.shown = c.shown
	inherited := c.Upstreams
	c.Upstreams = nil
	decodeInto(top, c)
	own := c.Upstreams
	c.Upstreams = slices.DeleteFunc(inherited, func(u Upstream) bool {
		return slices.ContainsFunc(own, func(o Upstream) bool { return o.Name == u.Name })
	})
	for _, u := range c.Upstreams {
		for _, p := range b.unset[u.Name] {
			r.unset(u.Name, p)
		}
	}
	c.Upstreams = append(c.Upstreams, own...)
	if len(r.problems) == 0 {
		c.Upstreams = checkUnique(r, c.Upstreams)
	}
}
