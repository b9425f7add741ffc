package rewrite

import (
	"errors"
	"fmt"
)

// checker checks function bodies of a module: the nesting of blocks, and the existence of every
// index.
type checker struct {
	m                                    *Module
	funcs, tables, memories, elems, data uint64
	globals                              []GlobalType
	refs                                 map[uint32]bool

	instrs []Instr
	blocks []Op // open blocks; the function itself is an OpBlock
}

func newChecker(m *Module, refs map[uint32]bool) *checker {
	return &checker{
		m: m, refs: refs, globals: m.globals(),
		funcs:    uint64(len(m.Funcs)) + uint64(m.imported(KindFunc)),
		tables:   uint64(len(m.tables())),
		memories: uint64(len(m.Memories)) + uint64(m.imported(KindMemory)),
		elems:    uint64(len(m.Elems)), data: uint64(len(m.Data)),
	}
}

// body checks a function. at is the offset of the error in the body.
func (c *checker) body(f *Func) (at int, err error) {
	c.instrs, err = f.Decode(c.instrs[:0])
	if err != nil {
		e := err.(*ParseError)
		return e.Offset, e.Err
	}
	locals := c.m.locals(f)
	c.blocks = append(c.blocks[:0], OpBlock)
	for i := range c.instrs {
		in := &c.instrs[i]
		at = int(in.At)
		if len(c.blocks) == 0 {
			return at, fmt.Errorf("%v after the end", in.Op)
		}
		if err := c.nest(in); err != nil {
			return at, err
		}
		if err := c.indices(in, locals); err != nil {
			return at, fmt.Errorf("%v: %w", in.Op, err)
		}
	}
	if len(c.blocks) > 0 {
		return len(f.Body), errors.New("end is missing")
	}
	return 0, nil
}

// nest keeps track of open blocks.
func (c *checker) nest(in *Instr) error {
	top := len(c.blocks) - 1
	switch in.Op {
	case OpBlock, OpLoop, OpIf:
		c.blocks = append(c.blocks, in.Op)
	case OpElse:
		if c.blocks[top] != OpIf {
			return errors.New("else without if")
		}
		c.blocks[top] = OpElse
	case OpEnd:
		c.blocks = c.blocks[:top]
	}
	return nil
}

// indices checks the indices among the immediates.
func (c *checker) indices(in *Instr, locals uint64) error {
	switch in.Op.info().imm {
	case immBlock:
		switch t := in.Value; {
		case t >= 0:
			return exists("type", uint32(t), uint64(len(c.m.Types)))
		case t != noResult && (t < -4 && t != -16 && t != -17):
			return fmt.Errorf("unknown block type %d", t)
		}
	case immLabel:
		return exists("label", in.Index, uint64(len(c.blocks)))
	case immLabels:
		for _, l := range in.Labels {
			if err := exists("label", l, uint64(len(c.blocks))); err != nil {
				return err
			}
		}
	case immFunc:
		if in.Op == OpRefFunc && !c.refs[in.Index] {
			return fmt.Errorf("function %d is not declared as a reference", in.Index)
		}
		return exists("function", in.Index, c.funcs)
	case immCallIndirect:
		return errors.Join(exists("type", in.Index, uint64(len(c.m.Types))), exists("table", in.Index2, c.tables))
	case immLocal:
		return exists("local", in.Index, locals)
	case immGlobal:
		if err := exists("global", in.Index, uint64(len(c.globals))); err != nil {
			return err
		}
		if in.Op == OpGlobalSet && !c.globals[in.Index].Mutable {
			return fmt.Errorf("global %d is immutable", in.Index)
		}
	case immTable:
		return exists("table", in.Index, c.tables)
	case immTables:
		return errors.Join(exists("table", in.Index, c.tables), exists("table", in.Index2, c.tables))
	case immMemArg, immMemory, immMemories:
		return exists("memory", 0, c.memories)
	case immData, immDataMemory:
		if !c.m.DataCount {
			return errors.New("there is no data count section")
		}
		if in.Op == OpMemoryInit && c.memories == 0 {
			return exists("memory", 0, 0)
		}
		return exists("data segment", in.Index, c.data)
	case immElem:
		return exists("element segment", in.Index, c.elems)
	case immElemTable:
		return errors.Join(exists("element segment", in.Index, c.elems), exists("table", in.Index2, c.tables))
	}
	return nil
}

func exists(what string, i uint32, n uint64) error {
	if uint64(i) >= n {
		return fmt.Errorf("there is no %s %d", what, i)
	}
	return nil
}
