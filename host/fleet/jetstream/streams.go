package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// madeTogether is how many of Options.streams versions before have made as well, all at once. The
// others came later, so that a fleet of before does not have them.
const madeTogether = 3

// streams returns the streams in the order of Options.streams.
func (s *Store) streams() []jetstream.Stream {
	return []jetstream.Stream{s.logs, s.docs, s.blobs, s.runs}
}

// openStreams finds the streams, and makes those that are not there and may be made.
func (s *Store) openStreams(ctx context.Context) error {
	at := [...]*jetstream.Stream{&s.logs, &s.docs, &s.blobs, &s.runs}
	configs := s.opts.streams()
	for i := range configs {
		if err := s.findStream(ctx, configs[i], at[i]); err != nil {
			return err
		}
	}
	for i := range configs {
		if *at[i] != nil {
			continue
		}
		if !s.mayMake(i) { // another replica may have made them all since the first one was looked for
			if err := s.findStream(ctx, configs[i], at[i]); err != nil {
				return err
			}
			if *at[i] == nil {
				return missing("stream " + configs[i].Name)
			}
			continue
		}
		if err := s.makeStream(ctx, configs[i], at[i]); err != nil {
			return err
		}
	}
	for i, st := range s.streams() {
		s.made[configs[i].Name] = st.CachedInfo().Created
	}
	return nil
}

// mayMake reports whether a stream that is not there may be made.
func (s *Store) mayMake(i int) bool {
	switch s.opts.Make {
	case MakeAll:
		return true
	case MakeNone:
		return false
	}
	if slices.Contains(s.opts.Had, s.opts.streams()[i].Name) {
		return false
	}
	// Something is written only when all of them are there.
	return i >= madeTogether || !slices.ContainsFunc(s.streams()[:madeTogether], func(st jetstream.Stream) bool {
		return st != nil && st.CachedInfo().State.LastSeq > 0
	})
}

// missing returns the error for something whose stream is not there.
func missing(what string) error {
	return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, store.ErrMissing)
}

// findStream sets at to a stream if it is there.
func (s *Store) findStream(ctx context.Context, config jetstream.StreamConfig, at *jetstream.Stream) error {
	err := s.retry(ctx, func(ctx context.Context) error {
		st, err := s.js.Stream(ctx, config.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return nil
		case err != nil:
			return err
		}
		*at = st
		return checkStream(st.CachedInfo().Config, config)
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", config.Name, err)
	}
	return nil
}

// makeStream makes a stream. Another process may be faster.
func (s *Store) makeStream(ctx context.Context, config jetstream.StreamConfig, at *jetstream.Stream) error {
	began := time.Now()
	err := s.retry(ctx, func(ctx context.Context) error {
		st, err := s.js.CreateStream(ctx, config)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			st, err = s.js.Stream(ctx, config.Name)
		} else if err == nil && s.opts.Made != nil {
			s.opts.Made(config.Name)
		}
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == codeNoPeers && time.Since(began) > s.opts.silence() {
			return configError(api.Description) // there are no more servers
		}
		if err != nil {
			return err
		}
		*at = st
		return checkStream(st.CachedInfo().Config, config)
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", config.Name, err)
	}
	return nil
}

// whenMade returns when a stream was made, as far as this process has noticed.
func (s *Store) whenMade(st jetstream.Stream) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[st.CachedInfo().Config.Name]
}

// madeAgain reports whether a stream is another one than that which was made at a time: it was lost,
// and a process has made it again.
func (s *Store) madeAgain(ctx context.Context, st jetstream.Stream, since time.Time) (bool, error) {
	var is *jetstream.StreamInfo
	err := s.retry(ctx, func(ctx context.Context) (err error) {
		is, err = st.Info(ctx)
		return err
	})
	if err != nil || is.Created.Equal(since) {
		return false, err
	}
	s.mu.Lock()
	news := !s.made[is.Config.Name].Equal(is.Created)
	s.made[is.Config.Name] = is.Created
	s.mu.Unlock()
	if news {
		s.log.Warn("a stream was lost and made again: what was in it is no longer there", "stream", is.Config.Name)
	}
	return true, nil
}
