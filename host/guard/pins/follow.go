package pins

import (
	"context"
	"io/fs"
	"os"
	"time"
)

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
