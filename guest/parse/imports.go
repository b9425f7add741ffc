package parse

import (
	"strings"

	"go.starlark.net/syntax"
)

// importStmt parses import x.y as z, ...
func (p *parser) importStmt(stmts []syntax.Stmt) []syntax.Stmt {
	pos := p.next()
	for {
		start := p.val.pos
		module := p.dotted()
		im := &Import{Pos: start, Module: module}
		if p.accept(syntax.AS) {
			im.As = p.ident()
		} else { // the part before the first dot is bound
			first, _, _ := strings.Cut(module, ".")
			im.As, module = ident(start, first), first
		}
		p.file.Imports = append(p.file.Imports, im)
		stmts = append(stmts, assign(pos, im.As, ident(start, ImportPrefix+module)))
		if !p.accept(syntax.COMMA) {
			return stmts
		}
	}
}

// dotted parses the name of a module.
func (p *parser) dotted() string {
	if p.tok == syntax.DOT || p.tok == ellipsis {
		p.fail(p.in.pos, "a script is not part of a package: only the modules of the library can be imported")
	}
	name := p.ident().Name
	for p.accept(syntax.DOT) {
		name += "." + p.ident().Name
	}
	return name
}

// fromStmt parses from module import names.
func (p *parser) fromStmt(stmts []syntax.Stmt) []syntax.Stmt {
	p.next()
	start := p.val.pos
	module := p.dotted()
	pos := p.consume(syntax.IMPORT)
	if p.tok == syntax.STAR {
		star := p.next()
		names := p.exports(module)
		for _, name := range names {
			stmts = p.importName(stmts, pos, start, module, ident(star, name), ident(star, name))
		}
		if len(names) == 0 {
			p.file.Imports = append(p.file.Imports, &Import{Pos: start, Module: module, As: ident(star, Hidden)})
		}
		return stmts
	}
	parens := p.accept(syntax.LPAREN)
	for {
		name := p.ident()
		as := ident(name.NamePos, name.Name)
		if p.accept(syntax.AS) {
			as = p.ident()
		}
		stmts = p.importName(stmts, pos, start, module, name, as)
		if !p.accept(syntax.COMMA) || parens && p.tok == syntax.RPAREN {
			break
		}
	}
	if parens {
		p.consume(syntax.RPAREN)
	}
	return stmts
}

func (p *parser) importName(stmts []syntax.Stmt, pos, start syntax.Position, module string, name, as *syntax.Ident) []syntax.Stmt {
	p.file.Imports = append(p.file.Imports, &Import{Pos: start, Module: module, Name: name.Name, As: as})
	x := &syntax.DotExpr{X: ident(start, ImportPrefix+module), Dot: name.NamePos, NamePos: name.NamePos, Name: name}
	return append(stmts, assign(pos, as, x))
}
