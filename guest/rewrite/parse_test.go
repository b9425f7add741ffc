package rewrite

import (
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// build returns the bytes of a module with sections: an id, then contents.
func build(sections ...string) []byte {
	b := []byte(header)
	for _, s := range sections {
		b = append(appendUint(append(b, s[0]), uint32(len(s)-1)), s[1:]...)
	}
	return b
}

const (
	typeSection = "\x01\x01\x60\x00\x00" // one type, () -> ()
	funcSection = "\x03\x01\x00"         // one function of it
)

// body returns a code section with one function without locals.
func body(code string) string {
	return "\x0a\x01" + string(rune(len(code)+1)) + "\x00" + code
}

func TestParseErrors(t *testing.T) {
	for name, c := range map[string]struct {
		wasm        []byte
		want        string
		unsupported bool
	}{
		"empty":                 {nil, "not a wasm module", false},
		"a component":           {[]byte("\x00asm\x0d\x00\x01\x00"), "version or layer", true},
		"short section":         {[]byte(header + "\x01\x05\x00"), "offset 0xa: 5 bytes announced, 1 left", false},
		"long section":          {build("\x01\x00\x00"), "type section: offset 0xb: 1 bytes too many", false},
		"order":                 {build("\x05\x01\x00\x01", typeSection), "type section twice or out of order", false},
		"twice":                 {build(typeSection, typeSection), "type section twice or out of order", false},
		"unknown section":       {build("\x20"), "unknown section 32", false},
		"tags":                  {build("\x0d\x00"), "exceptions", true},
		"leb128 too long":       {build("\x01\x80\x80\x80\x80\x80\x00"), "type section: offset 0xa: not a number of 32 bits", false},
		"leb128 too large":      {build("\x01\xff\xff\xff\xff\x1f"), "not a number of 32 bits", false},
		"huge count":            {build("\x01\xff\xff\xff\xff\x0f"), "4294967295 entries in 0 bytes", false},
		"no type":               {build("\x03\x01\x00"), "function section: offset 0xb: there is no type 0", false},
		"v128":                  {build("\x01\x01\x60\x01\x7b\x00"), "SIMD", true},
		"name":                  {build("\x07\x01\x01\xff\x00\x00"), "export section: offset 0xb: name is not UTF-8", false},
		"no body":               {build(typeSection, funcSection), "1 functions declared, 0 bodies", false},
		"shared memory":         {build("\x05\x01\x03\x01\x01"), "threads", true},
		"64-bit memory":         {build("\x05\x01\x04\x01"), "64-bit", true},
		"two memories":          {build("\x05\x02\x00\x01\x00\x01"), "2 memories", true},
		"too much memory":       {build("\x05\x01\x00\x81\x80\x04"), "limits 65537 to 0 (at most 65536)", false},
		"start of nothing":      {build("\x08\x00"), "start section: offset 0xa: there is no function 0", false},
		"extended constant":     {build("\x06\x01\x7f\x00\x41\x01\x41\x01\x6a\x0b"), "more than one instruction", true},
		"no end":                {build(typeSection, funcSection, body("\x01")), "code section: function 0: offset 0x18: end is missing", false},
		"else":                  {build(typeSection, funcSection, body("\x05\x0b")), "else without if", false},
		"code behind end":       {build(typeSection, funcSection, body("\x0b\x01\x0b")), "function 0: offset 0x18: nop after the end", false},
		"label":                 {build(typeSection, funcSection, body("\x0c\x01\x0b")), "br: there is no label 1", false},
		"local":                 {build(typeSection, funcSection, body("\x20\x00\x1a\x0b")), "local.get: there is no local 0", false},
		"global":                {build(typeSection, funcSection, body("\x23\x00\x1a\x0b")), "there is no global 0", false},
		"function":              {build(typeSection, funcSection, body("\x10\x01\x0b")), "call: there is no function 1", false},
		"table":                 {build(typeSection, funcSection, body("\x11\x00\x00\x0b")), "there is no table 0", false},
		"memory":                {build(typeSection, funcSection, body("\x3f\x00\x1a\x0b")), "there is no memory 0", false},
		"undeclared reference":  {build(typeSection, funcSection, body("\xd2\x00\x1a\x0b")), "not declared", false},
		"data without count":    {build(typeSection, funcSection, body("\xfc\x09\x00\x0b")), "data count", false},
		"SIMD":                  {build(typeSection, funcSection, body("\xfd\x00\x0b")), "0xfd (SIMD)", true},
		"threads":               {build(typeSection, funcSection, body("\xfe\x03\x00\x0b")), "threads", true},
		"tail call":             {build(typeSection, funcSection, body("\x12\x00\x0b")), "tail calls", true},
		"exceptions":            {build(typeSection, funcSection, body("\x06\x40\x0b\x0b")), "exceptions", true},
		"unknown opcode":        {build(typeSection, funcSection, body("\xff\x0b")), "unknown opcode 0xff", false},
		"unknown 0xfc":          {build(typeSection, funcSection, body("\xfc\x12\x0b")), "unknown opcode 0xfc12", false},
		"alignment":             {build(typeSection, funcSection, body("\x41\x00\x28\x03\x00\x1a\x0b")), "larger than natural", false},
		"block type":            {build(typeSection, funcSection, body("\x02\x41\x0b\x0b")), "unknown block type -63", false},
		"immediate cut off":     {build(typeSection, funcSection, body("\x44\x00\x00")), "8 bytes announced, 2 left", false},
		"too many locals":       {build(typeSection, funcSection, "\x0a\x01\x08\x02\xff\xff\x03\x7f\x01\x7f\x0b"), "more than 50000 locals", false},
		"data count":            {build("\x0c\x02"), "2 data segments announced, there are 0", false},
		"br_table of nonsense":  {build(typeSection, funcSection, body("\x0e\xff\xff\xff\xff\x0f\x0b")), "entries in 1 bytes", false},
		"exported twice":        {build(typeSection, funcSection, "\x07\x02\x01a\x00\x00\x01a\x00\x00", body("\x0b")), `"a" is exported twice`, false},
		"element of no table":   {build("\x09\x01\x00\x41\x00\x0b\x00"), "there is no table 0", false},
		"number with bad sign":  {build(typeSection, funcSection, body("\x41\xff\xff\xff\xff\x4f\x0b")), "not a signed number of 32 bits", false},
		"import of a tag":       {build("\x02\x01\x00\x00\x04\x00\x00"), "import of kind 4", true},
		"global in a constant":  {build("\x06\x01\x7f\x00\x23\x00\x0b"), "global 0 in a constant expression", false},
		"assignment to a const": {build(typeSection, funcSection, "\x06\x01\x7f\x00\x41\x00\x0b", body("\x41\x00\x24\x00\x0b")), "global 0 is immutable", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.wasm)
			var p *ParseError
			if !errors.As(err, &p) || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrUnsupported) != c.unsupported {
				t.Errorf("got %v (unsupported: %v), want %s", err, errors.Is(err, ErrUnsupported), c.want)
			}
		})
	}
}

// TestOpcodes checks that we and wazero know the same instructions, with the same
// names.
func TestOpcodes(t *testing.T) {
	named := 0
	for i := range 0x200 {
		op := Op(i)
		if i >= 0x100 {
			op = 0xfc00 | Op(i-0x100)
		}
		if op.info().imm != immUnknown {
			named++
		}
	}
	// 172 of version 1.0, 5 sign extensions, 8 saturating conversions, and 4
	// for memory, 8 for tables, 3 for references, select with a type.
	if named != 172+5+8+4+8+3+1 {
		t.Errorf("%d instructions", named)
	}
}

// TestNumbers checks that signed reads what appendSigned writes.
func TestNumbers(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, 1<<31 - 1, -1 << 31, 1 << 40, 1<<63 - 1, -1 << 63} {
		r := reader{b: appendSigned(nil, v)}
		if got := r.signed(64); got != v || r.err != nil || r.more() {
			t.Errorf("%d: %d, %v", v, got, r.err)
		}
		if int64(int32(v)) != v {
			continue
		}
		for _, size := range []int{32, 33} {
			r := reader{b: appendSigned(nil, v)}
			if got := r.signed(size); got != v || r.err != nil {
				t.Errorf("%d in %d bits: %d, %v", v, size, got, r.err)
			}
		}
	}
	for _, v := range []uint32{0, 127, 128, 1<<32 - 1} {
		r := reader{b: appendUint(nil, v)}
		if got := r.u32(); got != v || r.err != nil {
			t.Errorf("%d: %d, %v", v, got, r.err)
		}
	}
}

// TestInstructionsSurvive checks that every instruction of the guest and of generated
// modules is the same after decoding and encoding. The guest is the committed one, and with
// -scripts also the one that was not rewritten yet, which is compiled for that.
func TestInstructionsSurvive(t *testing.T) {
	packed, err := os.Open(filepath.Join("..", "..", "host", "script", "sandbox", "guest.wasm.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	wasms := [][]byte{committed}
	if *long || *scripts > 0 {
		wasms = append(wasms, guest(t))
	}
	for _, seed := range seeds(20) {
		wasms = append(wasms, generate(seed))
	}
	for _, wasm := range wasms {
		m, err := Parse(wasm)
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.Funcs {
			instrs, err := m.Funcs[i].Decode(nil)
			if err != nil {
				t.Fatal(err)
			}
			again := Func{Body: appendAll(nil, instrs...)}
			second, err := again.Decode(nil)
			if err != nil || len(second) != len(instrs) {
				t.Fatalf("function %d: %v", i, err)
			}
			for j := range instrs {
				a, b := instrs[j], second[j]
				if a.Op != b.Op || a.Index != b.Index || a.Index2 != b.Index2 || a.Value != b.Value || !slices.Equal(a.Labels, b.Labels) {
					t.Fatalf("function %d: %+v, %+v", i, a, b)
				}
			}
		}
	}
}
