//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/mcp-metatool/mcp-metatool/guest/guestbuild"
	"github.com/mcp-metatool/mcp-metatool/scripts/overlay"
)

// shiftVar is the environment variable with the name of a file whose first eight bytes, an integer
// in the machine's byte order, are the number of seconds by which the clock of a process is ahead.
const shiftVar = "FLEET_CLOCK_SHIFT"

// clockEdits make the wall clock of a running program follow the file. The program's monotonic
// clock goes on, as when a person sets the clock of a machine. Times of files are not changed.
var clockEdits = []overlay.Edit{
	{File: "time/time.go", Old: "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {\n", New: "	sec, nsec, mono := runtimeNow()\n	sec += atomic.LoadInt64(wallShift)\n	if mono == 0 {\n"},
	{File: "time/time.go", Old: "func Now() Time {\n", New: shiftSource + "\nfunc Now() Time {\n"},
	{File: "time/time.go", Old: "import (\n", New: "import (\n	\"sync/atomic\"\n	\"syscall\"\n	\"unsafe\"\n"},
}

const shiftSource = `
var wallShift = mapWallShift()

func mapWallShift() *int64 {
	path, _ := syscall.Getenv("` + shiftVar + `")
	if path == "" {
		return new(int64)
	}
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("` + shiftVar + `: " + err.Error())
	}
	defer syscall.Close(fd)
	data, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("` + shiftVar + `: " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&data[0]))
}
`

// writeOverlays writes clock.json and guest.json into dir. A program built with clock.json has an
// adjustable clock. A program built with guest.json also has another guest, with the same behaviour
// and another digest. Call writeOverlays in the root of the repository.
func writeOverlays(dir string) error {
	if _, err := overlay.Write(dir, "clock", clockEdits, nil); err != nil {
		return err
	}
	folder, err := filepath.Abs("host/script/sandbox")
	if err != nil {
		return err
	}
	guestFile, sumFile := filepath.Join(folder, guestbuild.GuestFile), filepath.Join(folder, guestbuild.SumFile)
	packed, err := os.ReadFile(guestFile)
	if err != nil {
		return err
	}
	wasm, err := guestbuild.Unpack(packed)
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(sumFile)
	if err != nil {
		return err
	}
	wasm, sum, err = otherGuest(wasm, sum)
	if err != nil {
		return err
	}
	_, err = overlay.Write(dir, "guest", clockEdits, map[string][]byte{guestFile: guestbuild.Pack(wasm), sumFile: sum})
	return err
}

var sumLine = regexp.MustCompile(`(?m)^wasm sha256:[0-9a-f]{64}$`)

// otherGuest adds a custom section to a guest, which changes nothing but the digest (WebAssembly
// 2.0, 5.5.3), and writes the digest into the sum file.
func otherGuest(wasm, sum []byte) (_, _ []byte, err error) {
	const name, content = "fleet", "another guest"
	section := append([]byte{0, byte(1 + len(name) + len(content)), byte(len(name))}, name+content...)
	wasm = append(wasm[:len(wasm):len(wasm)], section...)
	if len(sumLine.FindAll(sum, -1)) != 1 {
		return nil, nil, fmt.Errorf("guest.sum must have exactly one line with the digest")
	}
	digest := sha256.Sum256(wasm)
	return wasm, sumLine.ReplaceAll(sum, []byte("wasm sha256:"+hex.EncodeToString(digest[:]))), nil
}

// writeShift writes the number of seconds by which the clock of the processes that use a file is
// ahead.
func writeShift(file string, seconds int64) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(seconds))
	if _, err = f.WriteAt(b[:], 0); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// setClock sets the clock of a running replica ahead or back, by minutes or hours, or right again.
// The clock stays set when the process is started again.
func (t *trial) setClock(ctx context.Context, rnd *rand.Rand) {
	r := t.fleet.replicas[rnd.IntN(size)]
	seconds := 60 + rnd.Int64N(59*60)
	if rnd.IntN(2) == 0 {
		seconds = 3600 + rnd.Int64N(11*3600)
	}
	if rnd.IntN(2) == 0 {
		seconds = -seconds
	}
	r.mu.Lock()
	if r.ahead != 0 && rnd.IntN(2) == 0 {
		seconds = 0
	}
	r.ahead = seconds
	r.mu.Unlock()
	ahead := time.Duration(seconds) * time.Second
	t.note("the clock of %s is set: %v", r.name, ahead)
	if err := writeShift(r.clock, seconds); err != nil {
		t.tally.fail("%v", err)
	}
	if err := clockIs(ctx, r, ahead); err != nil {
		t.tally.fail("%v", err)
	}
	pause(ctx, time.Duration(500+rnd.IntN(4000))*time.Millisecond)
}

// clockIs checks, by an answer of the replica, that the replica's clock is ahead of the clock of
// this process.
func clockIs(ctx context.Context, r *replica, ahead time.Duration) error {
	for began := time.Now(); ; pause(ctx, 100*time.Millisecond) {
		resp, err := probe(r, "/healthz")
		if err == nil {
			said, bad := http.ParseTime(resp.Header.Get("Date"))
			off := time.Until(said) - ahead
			if bad == nil && off.Abs() < 20*time.Second {
				return nil
			}
			err = fmt.Errorf("the replica says %q", resp.Header.Get("Date"))
		}
		if time.Since(began) > patience/2 {
			return fmt.Errorf("the clock of %s is not ahead by %v: %w", r.name, ahead, err)
		}
	}
}
