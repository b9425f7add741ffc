// Package random is Python's module random. The run seeds the generator, and random.seed(n) always
// gives the same numbers, different from Python's.
package random

import (
	"math"
	"math/big"
	"math/rand/v2"
	"sort"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Module returns the module random.
func Module() *stdlib.Module {
	members := stdlib.Funcs(methods)
	members["Random"] = &stdlib.Class{
		Named: "random.Random",
		New: func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			c := &stdlib.Call{Thread: thread, Name: "Random", Args: args, Kwargs: kwargs}
			g := &generator{}
			_, err := seed(&stdlib.Call{Thread: thread, Name: "Random", Receiver: g, Args: c.Args, Kwargs: c.Kwargs})
			return g, err
		},
		Is: func(v starlark.Value) bool { _, ok := v.(*generator); return ok },
	}
	return &stdlib.Module{Name: "random", Members: members}
}

// generator makes random numbers: the run's generator, or a Random of the script.
type generator struct{ *rand.Rand }

var _ starlark.HasAttrs = (*generator)(nil)

func (*generator) String() string          { return "<random.Random object>" }
func (*generator) Type() string            { return "Random" }
func (*generator) Freeze()                 {}
func (*generator) Truth() starlark.Bool    { return true }
func (g *generator) Hash() (uint32, error) { return 0, nil }
func (g *generator) AttrNames() []string {
	var names []string
	for name := range methods {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func (g *generator) Attr(name string) (starlark.Value, error) {
	if m := stdlib.Method(g, name, methods); m != nil {
		return m, nil
	}
	return nil, nil
}

type stateKey struct{}

// of returns the generator of a call.
func of(c *stdlib.Call) (*generator, error) {
	if g, ok := c.Receiver.(*generator); ok {
		return g, nil
	}
	state := c.Env().State
	if g, ok := state[stateKey{}].(*generator); ok {
		return g, nil
	}
	s, err := c.Env().Seed()
	if err != nil {
		return nil, err
	}
	g := &generator{rand.New(rand.NewPCG(s, 0))}
	state[stateKey{}] = g
	return g, nil
}

var methods = map[string]stdlib.Func{
	"random": with(func(c *stdlib.Call, g *generator) (starlark.Value, error) {
		return starlark.Float(g.Float64()), c.Unpack()
	}),
	"randint": with(func(c *stdlib.Call, g *generator) (starlark.Value, error) {
		var a, b starlark.Int
		if err := c.Unpack("a", &a, "b", &b); err != nil {
			return nil, err
		}
		return between(g, a, b.Sub(a).Add(starlark.MakeInt(1)), starlark.MakeInt(1))
	}),
	"randrange": with(randRange), "getrandbits": with(bits), "randbytes": with(randBytes),
	"choice": with(choice), "choices": with(choices), "sample": with(sample), "shuffle": with(shuffle),
	"uniform": with(two("a", "b", func(g *generator, a, b float64) float64 { return a + (b-a)*g.Float64() })),
	"gauss":   with(two("mu?", "sigma?", func(g *generator, mu, sigma float64) float64 { return mu + sigma*g.NormFloat64() })),
	"normalvariate": with(two("mu?", "sigma?", func(g *generator, mu, sigma float64) float64 {
		return mu + sigma*g.NormFloat64()
	})),
	"lognormvariate": with(two("mu?", "sigma?", func(g *generator, mu, sigma float64) float64 {
		return math.Exp(mu + sigma*g.NormFloat64())
	})),
	"expovariate": with(func(c *stdlib.Call, g *generator) (starlark.Value, error) {
		rate := 1.0
		if err := c.Unpack("lambd?", &rate); err != nil {
			return nil, err
		}
		if rate == 0 {
			return nil, stdlib.Errorf(stdlib.ZeroDivisionError, "float division by zero")
		}
		return starlark.Float(g.ExpFloat64() / rate), nil
	}),
	"triangular": with(triangular),
	"seed":       seed,
}

func with(f func(c *stdlib.Call, g *generator) (starlark.Value, error)) stdlib.Func {
	return func(c *stdlib.Call) (starlark.Value, error) {
		g, err := of(c)
		if err != nil {
			return nil, err
		}
		return f(c, g)
	}
}

// two is a function of two numbers, 0 and 1 if they may be left out.
func two(x, y string, f func(g *generator, a, b float64) float64) func(c *stdlib.Call, g *generator) (starlark.Value, error) {
	return func(c *stdlib.Call, g *generator) (starlark.Value, error) {
		a, b := 0.0, 1.0
		if err := c.Unpack(x, &a, y, &b); err != nil {
			return nil, err
		}
		return starlark.Float(f(g, a, b)), nil
	}
}

func seed(c *stdlib.Call) (starlark.Value, error) {
	var a, version starlark.Value
	if err := c.Unpack("a??", &a, "version?", &version); err != nil {
		return nil, err
	}
	var s uint64
	switch v := a.(type) {
	case nil:
		n, err := c.Env().Seed()
		if err != nil {
			return nil, err
		}
		s = n
	case starlark.Int, starlark.Bool:
		n, _ := stdlib.Integer(v)
		s = new(big.Int).And(n.BigInt(), new(big.Int).SetUint64(math.MaxUint64)).Uint64()
	case starlark.Float:
		s = math.Float64bits(float64(v))
	case starlark.String, starlark.Bytes:
		s = 14695981039346656037 // FNV-1a
		for _, b := range []byte(c.Env().Str(v)) {
			s = (s ^ uint64(b)) * 1099511628211
		}
	default:
		return nil, stdlib.Errorf(stdlib.TypeError, "The only supported seed types are: None, int, float, str, bytes.")
	}
	fresh := rand.New(rand.NewPCG(s, 1))
	if g, ok := c.Receiver.(*generator); ok {
		g.Rand = fresh
	} else {
		c.Env().State[stateKey{}] = &generator{fresh}
	}
	return starlark.None, nil
}

// below returns a number from 0 to n-1.
func below(g *generator, n *big.Int) *big.Int {
	if n.IsInt64() {
		return big.NewInt(g.Int64N(n.Int64()))
	}
	for {
		if r := randomBits(g, n.BitLen()); r.Cmp(n) < 0 {
			return r
		}
	}
}

func randomBits(g *generator, bits int) *big.Int {
	words := make([]byte, 0, bits/8+8)
	for len(words)*8 < bits {
		w := g.Uint64()
		for range 8 {
			words = append(words, byte(w))
			w >>= 8
		}
	}
	r := new(big.Int).SetBytes(words)
	return r.Rsh(r, uint(len(words)*8-bits))
}

// between returns start plus any of count multiples of step.
func between(g *generator, start, count, step starlark.Int) (starlark.Value, error) {
	if count.Sign() <= 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "empty range for randrange()")
	}
	return start.Add(step.Mul(starlark.MakeBigInt(below(g, count.BigInt())))), nil
}

func randRange(c *stdlib.Call, g *generator) (starlark.Value, error) {
	var start, stop starlark.Int
	var end starlark.Value
	step := starlark.MakeInt(1)
	if err := c.Unpack("start", &start, "stop??", &end, "step?", &step); err != nil {
		return nil, err
	}
	if end == nil {
		start, stop = starlark.MakeInt(0), start
	} else {
		var ok bool
		if stop, ok = stdlib.Integer(end); !ok {
			return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object cannot be interpreted as an integer", stdlib.TypeName(end))
		}
	}
	if step.Sign() == 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "zero step for randrange()")
	}
	// The number of elements, rounded up.
	one := starlark.MakeInt(step.Sign())
	count, err := starlark.Binary(syntax.SLASHSLASH, stop.Sub(start).Add(step).Sub(one), step)
	if err != nil {
		return nil, err
	}
	return between(g, start, count.(starlark.Int), step)
}

func bits(c *stdlib.Call, g *generator) (starlark.Value, error) {
	var k int
	if err := c.Unpack("k", &k, "/", nil); err != nil {
		return nil, err
	}
	if k < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "number of bits must be non-negative")
	}
	if err := c.Env().Charge(k); err != nil {
		return nil, err
	}
	return starlark.MakeBigInt(randomBits(g, k)), nil
}

func randBytes(c *stdlib.Call, g *generator) (starlark.Value, error) {
	var n int
	if err := c.Unpack("n", &n); err != nil {
		return nil, err
	}
	if n < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "number of bits must be non-negative")
	}
	if err := c.Env().Charge(n); err != nil {
		return nil, err
	}
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(g.Uint64())
	}
	return starlark.Bytes(out), nil
}

func triangular(c *stdlib.Call, g *generator) (starlark.Value, error) {
	low, high := 0.0, 1.0
	var middle starlark.Value
	if err := c.Unpack("low?", &low, "high?", &high, "mode??", &middle); err != nil {
		return nil, err
	}
	u, at := g.Float64(), 0.5
	if middle != nil && high != low {
		m, err := stdlib.Float(middle)
		if err != nil {
			return nil, err
		}
		at = (m - low) / (high - low)
	}
	if u > at {
		u, at = 1-u, 1-at
		low, high = high, low
	}
	return starlark.Float(low + (high-low)*math.Sqrt(u*at)), nil
}

// pool returns the elements of a sequence.
func pool(c *stdlib.Call, v starlark.Value) (starlark.Indexable, error) {
	if s, ok := v.(starlark.Indexable); ok {
		return s, nil
	}
	return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object is not a sequence: make a list of it, list(x)", stdlib.TypeName(v))
}

func choice(c *stdlib.Call, g *generator) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("seq", &v); err != nil {
		return nil, err
	}
	s, err := pool(c, v)
	if err != nil {
		return nil, err
	}
	if s.Len() == 0 {
		return nil, stdlib.Errorf(stdlib.IndexError, "Cannot choose from an empty sequence")
	}
	return s.Index(g.IntN(s.Len())), nil
}

func choices(c *stdlib.Call, g *generator) (starlark.Value, error) {
	var v, weights, cumulative starlark.Value
	k := 1
	if err := c.Unpack("population", &v, "weights??", &weights, "*", nil, "cum_weights??", &cumulative, "k?", &k); err != nil {
		return nil, err
	}
	s, err := pool(c, v)
	if err != nil {
		return nil, err
	}
	sums, err := cumulate(c, s.Len(), weights, cumulative)
	if err != nil {
		return nil, err
	}
	if s.Len() == 0 && k > 0 {
		return nil, stdlib.Errorf(stdlib.IndexError, "list index out of range")
	}
	out := c.Env().NewValues()
	for range max(k, 0) {
		i := 0
		if sums == nil {
			i = g.IntN(s.Len())
		} else {
			x := g.Float64() * sums[len(sums)-1]
			i = min(sort.Search(len(sums), func(i int) bool { return sums[i] > x }), s.Len()-1)
		}
		if err := out.Add(s.Index(i)); err != nil {
			return nil, err
		}
	}
	return out.Value(), nil
}

// cumulate returns the sums of weights, nil for none.
func cumulate(c *stdlib.Call, n int, weights, cumulative starlark.Value) ([]float64, error) {
	given := weights
	if cumulative != nil {
		given = cumulative
	}
	switch {
	case given == nil:
		return nil, nil
	case weights != nil && cumulative != nil:
		return nil, stdlib.Errorf(stdlib.TypeError, "Cannot specify both weights and cumulative weights")
	}
	values, err := c.Elements(given)
	if err != nil {
		return nil, err
	}
	if len(values) != n {
		return nil, stdlib.Errorf(stdlib.ValueError, "The number of weights does not match the population")
	}
	sums := make([]float64, n)
	total := 0.0
	for i, v := range values {
		w, err := stdlib.Float(v)
		if err != nil {
			return nil, err
		}
		if total += w; cumulative != nil {
			total = w
		}
		sums[i] = total
	}
	if n > 0 && !(total > 0) || math.IsInf(total, 0) {
		return nil, stdlib.Errorf(stdlib.ValueError, "Total of weights must be greater than zero and finite")
	}
	return sums, nil
}

func sample(c *stdlib.Call, g *generator) (starlark.Value, error) {
	var v, counts starlark.Value
	var k int
	if err := c.Unpack("population", &v, "k", &k, "*", nil, "counts??", &counts); err != nil {
		return nil, err
	}
	if _, err := pool(c, v); err != nil {
		return nil, err
	}
	all, err := c.Elements(v)
	if err != nil {
		return nil, err
	}
	if counts != nil {
		if all, err = repeated(c, all, counts); err != nil {
			return nil, err
		}
	}
	if k < 0 || k > len(all) {
		return nil, stdlib.Errorf(stdlib.ValueError, "Sample larger than population or is negative")
	}
	for i := range k {
		j := i + g.IntN(len(all)-i)
		all[i], all[j] = all[j], all[i]
	}
	return starlark.NewList(all[:k]), nil
}

func repeated(c *stdlib.Call, all []starlark.Value, counts starlark.Value) ([]starlark.Value, error) {
	times, err := c.Elements(counts)
	if err != nil {
		return nil, err
	}
	if len(times) != len(all) {
		return nil, stdlib.Errorf(stdlib.ValueError, "The number of counts does not match the population")
	}
	out := c.Env().NewValues()
	for i, v := range all {
		n, err := stdlib.Int(times[i])
		if err != nil {
			return nil, err
		}
		for range max(n, 0) {
			if err := out.Add(v); err != nil {
				return nil, err
			}
		}
	}
	return out.List, nil
}

func shuffle(c *stdlib.Call, g *generator) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("x", &v); err != nil {
		return nil, err
	}
	list, ok := v.(starlark.HasSetIndex)
	if !ok {
		return nil, stdlib.Errorf(stdlib.TypeError, "'%s' object does not support item assignment", stdlib.TypeName(v))
	}
	for i := list.Len() - 1; i > 0; i-- {
		j := g.IntN(i + 1)
		x, y := list.Index(i), list.Index(j)
		if err := list.SetIndex(i, y); err != nil {
			return nil, err
		}
		if err := list.SetIndex(j, x); err != nil {
			return nil, err
		}
	}
	return starlark.None, nil
}
