package rewrite

// Skeleton returns the module without code: every function only traps. For an engine with native
// code of the module, the skeleton is as good as the module, and much faster to decode and to
// validate. Types, imports, exports and the number of functions are the same.
func Skeleton(wasm []byte) ([]byte, error) {
	m, err := Parse(wasm)
	if err != nil {
		return nil, err
	}
	for i := range m.Funcs {
		m.Funcs[i].Locals = nil
		m.Funcs[i].Body = []byte{byte(OpUnreachable), byte(OpEnd)}
	}
	return m.Encode(), nil
}
