package restrict

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func FuzzProfile(f *testing.F) {
	f.Add("/a\n/b", uint64(1<<16-1), uint64(3), []byte{1, 2, 3, 4, 5, 6, 7, 8}, uint16(443))
	f.Add("", uint64(0), uint64(0), []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, paths string, files, scoped uint64, filter []byte, port uint16) {
		paths = strings.ReplaceAll(paths, "\x00", "") // no path has one
		p := &Profile{HandledFiles: files, HandledPorts: scoped, Scoped: scoped, Memory: files, Processes: scoped, Filter: append([]byte{}, filter...)}
		if paths != "" {
			for path := range strings.SplitSeq(paths, "\n") {
				p.Files = append(p.Files, File{path, files})
			}
			p.Ports = []Port{{port, scoped}}
			p.Limits = []Limit{{int(port), files}, {0, 0}}
		}
		got, ok := Parse(strings.Split(p.Text(), "\x00"))
		if !ok || !reflect.DeepEqual(got, p) {
			t.Errorf("%+v became %+v, %t", p, got, ok)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add((&Profile{Files: []File{{"/", 1}}, Limits: []Limit{{1, 2}}}).Text())
	f.Add("1\x002\x003")
	f.Add("1\x002\x003\x000\x000\x00\x00ffffffffffffffff\x00ffffffffffffffff")
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := Parse(strings.Split(text, "\x00")); ok { // what is understood is sent in the same way
			again, ok := Parse(p.Strings())
			if !ok || !reflect.DeepEqual(again, p) {
				t.Errorf("%+v became %+v, %t", p, again, ok)
			}
		}
	})
}

// TestFilterIsWhole checks that a damaged profile is refused, and not applied in part.
func TestFilterIsWhole(t *testing.T) {
	whole := (&Profile{Filter: binary.NativeEndian.AppendUint64(nil, 1), Files: []File{{"/", 1}}}).Strings()
	for n := range whole {
		if _, ok := Parse(whole[:n]); ok {
			t.Errorf("%d of %d strings are taken for a profile", n, len(whole))
		}
	}
}
