package smoke

import "slices"

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
