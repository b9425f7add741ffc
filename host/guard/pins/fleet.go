package pins

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// A Keeper of a fleet has the pins from a Source, and a copy in its file for times without the
// store. New trust reaches the store before the first use, and is not granted while the store is
// away.

// whatFleet names the pins of a fleet in messages.
const whatFleet = "the pins of the fleet"

// base returns the lock from which a change of the pins of a fleet starts: the lock of the Source,
// else the copy, since pins do not disappear in normal operation, else the file from before the
// fleet.
func (s *state) base(ctx context.Context, data []byte) (*Lock, error) {
	if data == nil {
		var err error
		if data, err = firstFile(ctx, []string{s.path, s.seed}); err != nil {
			return nil, err
		}
	}
	if data == nil {
		return New(), nil
	}
	return Decode(data, whatFleet)
}

// updateShared is update for a fleet.
func (s *state) updateShared(ctx context.Context, f func() bool) error {
	var is *Lock
	var wrong *FileError
	err := s.shared.Change(ctx, func(before []byte) ([]byte, error) {
		read, err := s.base(ctx, before)
		if err != nil {
			errors.As(err, &wrong)
			return nil, err
		}
		is, s.lock = read, read.Clone()
		if !f() {
			return nil, nil
		}
		after, err := s.lock.Encode()
		if err == nil {
			is = s.lock
		}
		return after, err
	})
	if err != nil {
		if s.read(nil); wrong != nil { // the copy
			s.fault = err
		}
		return err
	}
	s.fault, s.lock = nil, is
	return s.copy(ctx)
}

// copy writes the lock into the file, for times without the store.
func (s *state) copy(ctx context.Context) error {
	data, err := s.lock.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	unlock, err := change.Lock(ctx, s.path)
	if err != nil {
		return err
	}
	defer unlock()
	if was, err := regular.Read(ctx, s.path, MaxFile); err != nil || !bytes.Equal(was, data) {
		if err := (regular.Place{Name: s.path}).Replace(data, Perm); err != nil {
			return err
		}
	}
	s.seen, s.existed = fingerprintOf(s.path), true
	return nil
}

// received takes over the pins of the Source; nil: the Source has none.
func (k *Keeper) received(ctx context.Context, data []byte) {
	k.change(func(now *state) {
		if data == nil {
			// The first replica gives the fleet the earlier pins.
			if err := now.updateShared(ctx, func() bool { return len(now.lock.servers) > 0 }); err != nil && ctx.Err() == nil {
				k.opts.Log.Warn("pins are not shared", "err", err)
			}
			return
		}
		l, err := Decode(data, whatFleet)
		if err != nil {
			now.fault = err
			return
		}
		now.fault, now.lock = nil, l
		if err := now.copy(ctx); err != nil && ctx.Err() == nil {
			k.opts.Log.Warn("the pins of the fleet are not copied to the file", "err", err)
		}
	})
}

// fetch reads the pins of the fleet for a command, which follows nothing and writes nothing. If the
// store does not answer, an existing copy counts.
func (s *state) fetch(ctx context.Context) {
	data, err := ReadFleet(ctx, s.shared, s.path, s.seed)
	if err != nil {
		if s.read(nil); s.fault == nil && !s.existed {
			s.fault = err
		}
		return
	}
	s.fault, s.lock = nil, New()
	if data == nil {
		return
	}
	l, err := Decode(data, whatFleet)
	if err != nil {
		s.fault = err
		return
	}
	s.lock, s.existed = l, true
}
