package subreaper

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
)

func TestFrame(t *testing.T) {
	f := Frame{Kind: Exited, Value: 0xFEDCBA98}
	if got := ParseFrame([FrameSize]byte(f.Bytes())); got != f {
		t.Errorf("got %+v", got)
	}
}

func FuzzCommand(f *testing.F) {
	f.Add("/bin/x", "", "x\n-a\n", "A=b\nC=", "1f\n2", "/tmp/x")
	f.Add("", "/", "", "", "", "")
	f.Fuzz(func(t *testing.T, path, dir, args, env, profile, temp string) {
		for _, text := range []*string{&path, &dir, &args, &env, &profile, &temp} {
			*text = strings.ReplaceAll(*text, "\x00", "")
		}
		o := Command{Path: path, Dir: dir, Args: strings.Split(args, "\n"), Env: strings.Split(env, "\n"), Temp: temp}
		if profile != "" {
			o.Profile = strings.Split(profile, "\n")
		}
		b := o.Bytes()
		if n := binary.BigEndian.Uint32(b); int(n) != len(b)-4 {
			t.Errorf("length %d of %d bytes", n, len(b))
		}
		if got, ok := parseCommand(string(b[4:])); !ok || !reflect.DeepEqual(got, o) {
			t.Errorf("%+v became %+v", o, got)
		}
	})
}

func TestMalformedCommands(t *testing.T) {
	for _, text := range []string{
		"", "a", "a\x00b", "a\x00b\x00", "a\x00b\x00\x000", "a\x00b\x00\x00-1\x000", "a\x00b\x00\x001\x000", "a\x00b\x00\x000\x001",
		"a\x00b\x00\x00x\x000\x00y", "a\x00b\x00\x001\x001\x00y",
	} {
		if o, ok := parseCommand(text); ok {
			t.Errorf("%q: %+v", text, o)
		}
	}
	if o, ok := parseCommand("a\x00b\x00\x000\x000"); !ok || len(o.Args)+len(o.Env) != 0 {
		t.Errorf("no strings: %+v, %t", o, ok)
	}
}
