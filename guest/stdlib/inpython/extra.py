# What collections, functools and statistics have besides, for scripts.

class ChainMap:
    def __init__(self, *maps):
        self.maps = list(maps) or [{}]

    def new_child(self, m=None, **kwargs):
        return ChainMap(kwargs if m is None else m, *self.maps)

    @property
    def parents(self):
        return ChainMap(*self.maps[1:])

    def merged(self):
        out = {}
        for m in reversed(self.maps):
            out.update(m)
        return out

    def get(self, key, default=None):
        return self[key] if key in self else default

    def keys(self):
        return list(self.merged().keys())

    def values(self):
        return list(self.merged().values())

    def items(self):
        return list(self.merged().items())

    def pop(self, key, *default):
        return self.maps[0].pop(key, *default)

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args, **kwargs):
        self.maps[0].update(*args, **kwargs)

    def __getitem__(self, key):
        for m in self.maps:
            if key in m:
                return m[key]
        raise KeyError(key)

    def __setitem__(self, key, value):
        self.maps[0][key] = value

    def __delitem__(self, key):
        if key not in self.maps[0]:
            raise KeyError(f"Key not found in the first mapping: {key!r}")
        del self.maps[0][key]

    def __contains__(self, key):
        return any([key in m for m in self.maps])

    def __iter__(self):
        return iter(self.keys())

    def __len__(self):
        return len(self.merged())

    def __bool__(self):
        return any([bool(m) for m in self.maps])

    def __eq__(self, other):
        return self.merged() == (other.merged() if isinstance(other, ChainMap) else other)

    def __repr__(self):
        return f"ChainMap({', '.join([repr(m) for m in self.maps])})"

    def __json__(self):
        return self.merged()

def total_ordering(cls):
    def less(x, y):
        return x < y
    rules = {
        "__lt__": {"__gt__": lambda x, y: not (x < y) and x != y, "__le__": lambda x, y: x < y or x == y, "__ge__": lambda x, y: not (x < y)},
        "__le__": {"__ge__": lambda x, y: not (x <= y) or x == y, "__lt__": lambda x, y: x <= y and x != y, "__gt__": lambda x, y: not (x <= y)},
        "__gt__": {"__lt__": lambda x, y: not (x > y) and x != y, "__ge__": lambda x, y: x > y or x == y, "__le__": lambda x, y: not (x > y)},
        "__ge__": {"__le__": lambda x, y: not (x >= y) or x == y, "__gt__": lambda x, y: x >= y and x != y, "__lt__": lambda x, y: not (x >= y)},
    }
    for root, others in rules.items():
        if hasattr(cls, root):
            for name, method in others.items():
                if not hasattr(cls, name):
                    setattr(cls, name, method)
            return cls
    raise ValueError("must define at least one ordering operation: < > <= >=")

class singledispatch:
    def __init__(self, f):
        self.default, self.registry = f, []

    def register(self, cls, f=None):
        if f is not None:
            self.registry.append((cls, f))
            return f
        if type(cls) == "function":
            raise TypeError("write @f.register(int): annotations have no meaning here")
        return lambda g: self.register(cls, g)

    def dispatch(self, cls):
        for known, f in self.registry:
            if known == cls:
                return f
        return self.default

    def __call__(self, *args, **kwargs):
        best = None
        for cls, f in self.registry:
            if isinstance(args[0], cls) and (best is None or narrower(cls, best[0])):
                best = (cls, f)
        return (best[1] if best else self.default)(*args, **kwargs)

def narrower(cls, other):
    if cls is bool and other is int:
        return True
    try:
        return issubclass(cls, other)
    except TypeError:
        return False

def median_grouped(data, interval=1.0):
    data = sorted(data)
    n = len(data)
    if n == 0:
        raise StatisticsError("no median for empty data")
    x = data[n // 2]
    i = len([y for y in data if y < x])
    f = len([y for y in data if y == x])
    low = float(x) - float(interval) / 2.0
    return low + float(interval) * (n / 2 - i) / f

from statistics import StatisticsError

return {
    "ChainMap": ChainMap, "median_grouped": median_grouped, "singledispatch": singledispatch,
    "total_ordering": total_ordering,
}
