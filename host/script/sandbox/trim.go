package sandbox

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// trim frees memory that only the start has needed: most of the native code, which is
// in a file now; the guest; the pages of the image that only boot has read; and what the
// host's collector would keep until its next cycle, which can be hours away in a process
// that serves few requests. It ends early when ctx does.
func (s *snapshot) trim(ctx context.Context, before map[codeRegion]bool, log *slog.Logger) {
	s.program.guest = nil // of use again only for another boot
	if c := s.program.cache; c != nil {
		if err := c.mapCode(ctx, before); err != nil && ctx.Err() == nil {
			log.Info("sandbox: more memory is used", "error", err)
		}
	}
	if i, ok := s.image.(interface{ trim() }); ok {
		i.trim()
	}
	if ctx.Err() != nil {
		return
	}
	debug.FreeOSMemory()
}
