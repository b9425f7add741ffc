package parse

import "go.starlark.net/syntax"

// Hidden begins the names only found in trees: no script can write the dot.
const Hidden = "·"

// Names used in trees. Most stand on the left of |, with the operand on the right; several operands
// are a tuple.
const (
	Power       = "·pow"       // x, y
	PowerOf     = "·powof"     // y, on the right of x *= for x **= y
	Is          = "·is"        // x, y
	IsNot       = "·isnot"     // x, y
	Set         = "·set"       // a list
	Concat      = "·concat"    // lists, and iterables after *
	ConcatTuple = "·concattup" // the same, for a tuple
	Merge       = "·merge"     // dicts
	SetSlice    = "·setslice"  // the value, x, lo, hi, step
	DelSlice    = "·delslice"  // x, lo, hi, step
	DelItem     = "·delitem"   // x, key
	DelAttr     = "·delattr"   // x, name
	Super       = "·super"     // a class, self
	Assertion   = "·assertion" // the text of a failed assertion
	// These return False, or a tuple of True and the parts for the patterns.
	MatchSequence = "·matchseq"   // x, the number of parts, the index of the part with a star
	MatchMapping  = "·matchmap"   // x, keys, whether the rest is a part
	MatchClass    = "·matchclass" // x, the class, the number of positional parts, names of attributes
	// These are functions.
	Generate  = "·generate" // a function, and the arguments
	GenExpr   = "·genexpr"  // a function, and an iterable
	MakeClass = "·class"    // name, bases, body
	Raise     = "·raise"    // error, cause
	// Generator is the parameter of a function with yield. Applied with | to a value, Generator
	// yields the value; with & to an iterable, all elements.
	Generator = "·g"
	// Unpack is followed by the numbers of targets before and after the target with a star, with a
	// dot between them; UnpackEach is the same for each element.
	Unpack     = "·unpack·"
	UnpackEach = "·unpackeach·"
	// ImportPrefix is followed by the name of a module.
	ImportPrefix = "·import·"
	// MemberPrefix begins the names bound in the body of a class.
	MemberPrefix = "·m·"
	// BodyPrefix begins the names of functions with the body of a class or a generator.
	BodyPrefix = "·body·"
)

// Annotations is the member of a class with the names of annotated fields.
const Annotations = "__annotations__"

// A Try is a try statement.
type Try struct {
	*syntax.IfStmt // the position, and the body as True
	Clauses        []*Except
	OrElse         []syntax.Stmt
	Finally        []syntax.Stmt
}

// An Except is a clause of a try statement.
type Except struct {
	Pos   syntax.Position
	Class syntax.Expr   // nil for all classes
	As    *syntax.Ident // nil if the error has no name
	Body  []syntax.Stmt
}

// Parts returns the blocks of a try statement.
func (s *Try) Parts() [][]syntax.Stmt {
	parts := [][]syntax.Stmt{s.True}
	for _, c := range s.Clauses {
		parts = append(parts, c.Body)
	}
	return append(parts, s.OrElse, s.Finally)
}

// A Scope is a global or nonlocal statement.
type Scope struct {
	*syntax.BranchStmt // the position
	Global             bool
	Names              []*syntax.Ident
}

// A Joined is a literal composed of other literals.
type Joined struct {
	Pieces []Piece
	Bytes  bool // the pieces are text of a bytes literal
}

// A Piece is a part of a composed string: text or a field.
type Piece struct {
	Text       string
	Expr       syntax.Expr     // nil for text
	Pos        syntax.Position // of the field's {
	Conversion byte
	Spec       []Piece
	HasSpec    bool
}

// An Import is a name bound by an import statement.
type Import struct {
	Pos    syntax.Position
	Module string
	Name   string        // imported from the module; "" for the module itself
	As     *syntax.Ident // the bound name
}
