package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
)

// follow runs the checks, and runs them again each time a file that they depend on
// changes, until ctx ends. The error is then its cause. Nothing else ends it: a file with
// an error can be fixed.
func (v *smokeView) follow(ctx context.Context, args []string, once func(files []string) (int, error)) error {
	for ctx.Err() == nil {
		files, err := smoke.Files(args)
		watched := v.watched(args, files)
		before := watched.fingerprint()
		code := exitUsage
		if err == nil {
			code, err = once(files)
		}
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			complain(os.Stderr, err)
		}
		if v.opts.Record || v.opts.Update { // the run itself has changed some of the files
			watched = v.watched(args, files)
			before = watched.fingerprint()
		}
		fmt.Fprintf(os.Stderr, "exit code %d; waiting for changes (Ctrl-C ends)\n", code)
		changed, stop := context.WithCancel(ctx)
		watched.watch(changed, v.log(&config.Masker{}), func() [sha256.Size]byte { return before }, stop, nil, func() {})
		stop()
	}
	return context.Cause(ctx)
}

// watched returns the files that the checks depend on, and the directories in which new
// ones may be created.
func (v *smokeView) watched(args, files []string) configFiles {
	names := slices.Clone(args)
	for _, f := range files {
		names = append(names, smoke.Inputs(f, v.opts.Load)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
