package smoke

import (
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// settings reads the settings outside of checks: [smoke], [profile.NAME] and [vars].
func (r *fileReader) settings(top *config.Section) {
	profile := r.profiles(top) // first: the values of variables are needed below
	if s := top.Section("smoke"); s != nil {
		r.file.ownTimeout = s.Duration("timeout", &r.file.Timeout, minTime, maxTime)
		s.Duration("startup_timeout", &r.file.Startup, minTime, maxTime)
		r.file.tags = readTags(s, "tags")
		r.readPins(s)
		r.base(s)
		s.Close(map[string]string{"startup": "startup_timeout", "startupwait": "startup_timeout", "configuration": "config", "tag": "tags"})
	} else {
		r.base(nil)
	}
	if r.file.extends != "" && !r.opts.Offline {
		top.Extend(r.opts.Load, r.file.extends)
	}
	r.vars(top.Section("vars"))
	r.vars(profile)
	maps.Copy(r.file.vars, r.given(top))
}

// base reads which configuration the file uses; s may be nil.
func (r *fileReader) base(s *config.Section) {
	if s != nil {
		if r.opts.Offline { // variables in the configuration's name are not needed
			s.Know("config")
			r.file.extends, _ = s.Verbatim("config")
		} else if path, ok := s.Path("config"); ok {
			r.file.extends = path
		}
	}
	if r.opts.Config != "" {
		r.file.extends = r.opts.Config
	}
}

// profiles reads the profiles. profiles sets the environment of the chosen profile and returns its
// variables, or nil.
func (r *fileReader) profiles(top *config.Section) (vars *config.Section) {
	all := top.Section("profile")
	if all == nil {
		return nil
	}
	r.file.Profiles = all.Keys()
	for _, name := range all.Keys() {
		p := all.Section(name)
		if p == nil {
			continue
		}
		env, own := p.Section("env"), p.Section("vars")
		p.Close(map[string]string{"environment": "env", "variables": "vars"})
		if name != r.opts.Profile {
			continue
		}
		if vars = own; env != nil {
			top.Variables(environment(env))
		}
	}
	if r.opts.Profile != "" && !slices.Contains(all.Keys(), r.opts.Profile) {
		all.Problem("", "there is no [profile.%s]%s", r.opts.Profile, hint(r.opts.Profile, all.Keys()))
	}
	return vars
}

// environment returns the variables of a profile. A variable that needs an unset variable is not
// set either.
func environment(s *config.Section) map[string]string {
	filled := s.Fill(config.Filling{Value: noReference})
	values := map[string]string{}
	for _, name := range s.Keys() {
		if text, ok := filled.String(name); ok {
			values[name] = text
		}
	}
	return values
}

// given returns the variables of the command line.
func (r *fileReader) given(top *config.Section) map[string]value {
	given := map[string]value{}
	for name, raw := range r.opts.Vars {
		given[name] = value{raw: raw}
		top.Hide(secretTexts(name, raw)...)
	}
	return given
}

// vars reads a table of variables; s may be nil.
func (r *fileReader) vars(s *config.Section) {
	if s == nil {
		return
	}
	filled := s.Fill(config.Filling{Value: noReference})
	for _, name := range s.Keys() {
		if !config.IsReferenceName(name) {
			s.Problem(name, "is not a name that a reference can have (use letters, digits, _ and -, and begin with a letter)")
			continue
		}
		v := value{}
		if missing := filled.Missing(name); missing != nil {
			v.err = missing.Err
		} else {
			v.raw = filled.JSON(name)
			s.Hide(secretTexts(name, v.raw)...)
		}
		r.file.vars[name] = v
	}
}
