package sandbox

// image is the content of the memory that instances start with. The methods are safe for concurrent
// use.
type image interface {
	// Size is the length of the image in bytes, whole wasm pages.
	Size() uint64
	// Base is the part of the machine's memory, in bytes, that a typical run uses if the run's
	// memory does not grow: at most Size.
	Base() uint64
	// Open returns memory that gets the content of the image when wazero allocates the memory. The
	// memory may grow to limit bytes; limit is at least Size.
	Open(limit uint64) memory
	// Learn receives the memory of an ended typical run, before its release. The parts that differ
	// from the image are the parts that most runs change.
	Learn(m memory)
	// Close frees the image. All opened memory must have been released.
	Close()
}

// changes is the difference between memory and its image: some whole pages of the system, with
// their content. The zero value is no difference.
type changes struct {
	pages   []uint32 // their numbers, in ascending order
	content []byte
}

func (c changes) bytes() int { return len(c.content) + 4*len(c.pages) }

// span is a range of bytes.
type span struct{ from, to uint64 }

// copyImage is an image that is copied into each memory, for systems without copy on write.
type copyImage struct {
	size    uint64
	content []byte // up to the last byte that is not zero
	// filled has the parts of content that are not zero; only these are copied.
	filled []span
}

// copyGrain is the length, in bytes, of the pieces that are skipped if they are zero.
const copyGrain = 4 << 10

func newCopyImage(content []byte) *copyImage {
	i := &copyImage{size: uint64(len(content))}
	i.filled = spans(len(content), copyGrain, 0, func(from, to int) bool { return !isZero(content[from:to]) })
	if n := len(i.filled); n > 0 {
		i.content = append(i.content, content[:i.filled[n-1].to]...)
	}
	return i
}

func (i *copyImage) Size() uint64 { return i.size }
func (i *copyImage) Base() uint64 { return i.size }
func (*copyImage) Learn(memory)   {}
func (*copyImage) Close()         {}

func (i *copyImage) Open(limit uint64) memory {
	return &copiedMemory{memory: newMemory(limit), image: i}
}

// copiedMemory is memory that starts with a copy of an image.
type copiedMemory struct {
	memory
	image  *copyImage
	filled bool
}

func (m *copiedMemory) Reallocate(size uint64) []byte {
	if m.filled {
		return m.memory.Reallocate(size)
	}
	b := m.memory.Reallocate(max(size, m.image.size))
	for _, s := range m.image.filled {
		copy(b[s.from:s.to], m.image.content[s.from:s.to])
	}
	m.filled = b != nil
	return b
}

// spans divides length bytes into pieces of grain bytes and returns the wanted ones. Neighbours are
// joined, and also pieces with up to gap unwanted ones between them.
func spans(length, grain, gap int, wanted func(from, to int) bool) []span {
	var list []span
	for from := 0; from < length; from += grain {
		to := min(from+grain, length)
		if !wanted(from, to) {
			continue
		}
		if n := len(list); n > 0 && list[n-1].to+uint64(gap*grain) >= uint64(from) {
			list[n-1].to = uint64(to)
			continue
		}
		list = append(list, span{uint64(from), uint64(to)})
	}
	return list
}

func isZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
