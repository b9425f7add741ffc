# Python's difflib, for scripts: its algorithm, so that ratios and differences are the
# same.

from collections import namedtuple

Match = namedtuple("Match", "a b size")

class SequenceMatcher:
    def __init__(self, isjunk=None, a="", b="", autojunk=True):
        self.isjunk, self.autojunk = isjunk, autojunk
        self.a = self.b = None
        self.set_seqs(a, b)

    def set_seqs(self, a, b):
        self.set_seq1(a)
        self.set_seq2(b)

    def set_seq1(self, a):
        self.a = a
        self.matching_blocks = self.opcodes = None

    def set_seq2(self, b):
        self.b = b
        self.matching_blocks = self.opcodes = self.fullbcount = None
        b2j = {}
        for i, x in enumerate(b):
            if x in b2j:
                b2j[x].append(i)
            else:
                b2j[x] = [i]
        self.bjunk, self.bpopular = set(), set()
        if self.isjunk:
            self.bjunk = {x for x in b2j if self.isjunk(x)}
        for x in self.bjunk:
            b2j.pop(x)
        if self.autojunk and len(b) >= 200:
            most = len(b) // 100 + 1
            self.bpopular = {x for x, at in b2j.items() if len(at) > most}
            for x in self.bpopular:
                b2j.pop(x)
        self.b2j = b2j

    def find_longest_match(self, alo=0, ahi=None, blo=0, bhi=None):
        a, b, b2j, junk = self.a, self.b, self.b2j, self.bjunk
        ahi = len(a) if ahi is None else ahi
        bhi = len(b) if bhi is None else bhi
        besti, bestj, size = alo, blo, 0
        lengths = {}
        for i in range(alo, ahi):
            new = {}
            for j in b2j.get(a[i], ()):
                if j < blo:
                    continue
                if j >= bhi:
                    break
                k = new[j] = lengths.get(j - 1, 0) + 1
                if k > size:
                    besti, bestj, size = i - k + 1, j - k + 1, k
            lengths = new
        for only in (False, True):
            while besti > alo and bestj > blo and (b[bestj - 1] in junk) == only and a[besti - 1] == b[bestj - 1]:
                besti, bestj, size = besti - 1, bestj - 1, size + 1
            while besti + size < ahi and bestj + size < bhi and (b[bestj + size] in junk) == only and a[besti + size] == b[bestj + size]:
                size += 1
        return Match(besti, bestj, size)

    def get_matching_blocks(self):
        if self.matching_blocks is not None:
            return self.matching_blocks
        la, lb = len(self.a), len(self.b)
        queue, found = [(0, la, 0, lb)], []
        while queue:
            alo, ahi, blo, bhi = queue.pop()
            i, j, k = x = self.find_longest_match(alo, ahi, blo, bhi)
            if k:
                found.append((i, j, k))
                if alo < i and blo < j:
                    queue.append((alo, i, blo, j))
                if i + k < ahi and j + k < bhi:
                    queue.append((i + k, ahi, j + k, bhi))
        i1 = j1 = k1 = 0
        out = []
        for i2, j2, k2 in sorted(found):
            if i1 + k1 == i2 and j1 + k1 == j2:
                k1 += k2
            else:
                if k1:
                    out.append(Match(i1, j1, k1))
                i1, j1, k1 = i2, j2, k2
        if k1:
            out.append(Match(i1, j1, k1))
        out.append(Match(la, lb, 0))
        self.matching_blocks = out
        return out

    def get_opcodes(self):
        if self.opcodes is not None:
            return self.opcodes
        i = j = 0
        self.opcodes = out = []
        for ai, bj, size in self.get_matching_blocks():
            tag = ""
            if i < ai and j < bj:
                tag = "replace"
            elif i < ai:
                tag = "delete"
            elif j < bj:
                tag = "insert"
            if tag:
                out.append((tag, i, ai, j, bj))
            i, j = ai + size, bj + size
            if size:
                out.append(("equal", ai, i, bj, j))
        return out

    def get_grouped_opcodes(self, n=3):
        codes = list(self.get_opcodes()) or [("equal", 0, 1, 0, 1)]
        if codes[0][0] == "equal":
            tag, i1, i2, j1, j2 = codes[0]
            codes[0] = tag, max(i1, i2 - n), i2, max(j1, j2 - n), j2
        if codes[-1][0] == "equal":
            tag, i1, i2, j1, j2 = codes[-1]
            codes[-1] = tag, i1, min(i2, i1 + n), j1, min(j2, j1 + n)
        group = []
        for tag, i1, i2, j1, j2 in codes:
            if tag == "equal" and i2 - i1 > n + n:
                group.append((tag, i1, min(i2, i1 + n), j1, min(j2, j1 + n)))
                yield group
                group = []
                i1, j1 = max(i1, i2 - n), max(j1, j2 - n)
            group.append((tag, i1, i2, j1, j2))
        if group and not (len(group) == 1 and group[0][0] == "equal"):
            yield group

    def ratio(self):
        matches = sum([block[2] for block in self.get_matching_blocks()])
        return share(matches, len(self.a) + len(self.b))

    def quick_ratio(self):
        if self.fullbcount is None:
            self.fullbcount = {}
            for x in self.b:
                self.fullbcount[x] = self.fullbcount.get(x, 0) + 1
        available, matches = {}, 0
        for x in self.a:
            left = available[x] if x in available else self.fullbcount.get(x, 0)
            available[x] = left - 1
            if left > 0:
                matches += 1
        return share(matches, len(self.a) + len(self.b))

    def real_quick_ratio(self):
        la, lb = len(self.a), len(self.b)
        return share(min(la, lb), la + lb)

def share(matches, length):
    return 2.0 * matches / length if length else 1.0

def get_close_matches(word, possibilities, n=3, cutoff=0.6):
    if n <= 0:
        raise ValueError(f"n must be > 0: {n!r}")
    if not 0.0 <= cutoff <= 1.0:
        raise ValueError(f"cutoff must be in [0.0, 1.0]: {cutoff!r}")
    found = []
    matcher = SequenceMatcher()
    matcher.set_seq2(word)
    for x in possibilities:
        matcher.set_seq1(x)
        if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff and matcher.ratio() >= cutoff:
            found.append((matcher.ratio(), x))
    found.sort(reverse=True)
    return [x for _, x in found[:n]]

def span(start, stop, comma):
    """Returns the range of lines in the head of a difference."""
    first, length = start + 1, stop - start
    if comma == "unified":
        if length == 1:
            return f"{first}"
        return f"{first - 1 if length == 0 else first},{length}"
    first = first - 1 if length == 0 else first
    return f"{first}" if length <= 1 else f"{first},{first + length - 1}"

def unified_diff(a, b, fromfile="", tofile="", fromfiledate="", tofiledate="", n=3, lineterm="\n"):
    started = False
    for group in SequenceMatcher(None, a, b).get_grouped_opcodes(n):
        if not started:
            started = True
            yield f"--- {fromfile}{dated(fromfiledate)}{lineterm}"
            yield f"+++ {tofile}{dated(tofiledate)}{lineterm}"
        first, last = group[0], group[-1]
        yield f"@@ -{span(first[1], last[2], 'unified')} +{span(first[3], last[4], 'unified')} @@{lineterm}"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                for line in a[i1:i2]:
                    yield " " + line
                continue
            if tag in ("replace", "delete"):
                for line in a[i1:i2]:
                    yield "-" + line
            if tag in ("replace", "insert"):
                for line in b[j1:j2]:
                    yield "+" + line

def context_diff(a, b, fromfile="", tofile="", fromfiledate="", tofiledate="", n=3, lineterm="\n"):
    prefix = {"insert": "+ ", "delete": "- ", "replace": "! ", "equal": "  "}
    started = False
    for group in SequenceMatcher(None, a, b).get_grouped_opcodes(n):
        if not started:
            started = True
            yield f"*** {fromfile}{dated(fromfiledate)}{lineterm}"
            yield f"--- {tofile}{dated(tofiledate)}{lineterm}"
        first, last = group[0], group[-1]
        yield "***************" + lineterm
        yield f"*** {span(first[1], last[2], 'context')} ****{lineterm}"
        if any([tag in ("replace", "delete") for tag, _, _, _, _ in group]):
            for tag, i1, i2, _, _ in group:
                if tag != "insert":
                    for line in a[i1:i2]:
                        yield prefix[tag] + line
        yield f"--- {span(first[3], last[4], 'context')} ----{lineterm}"
        if any([tag in ("replace", "insert") for tag, _, _, _, _ in group]):
            for tag, _, _, j1, j2 in group:
                if tag != "delete":
                    for line in b[j1:j2]:
                        yield prefix[tag] + line

def dated(date):
    return f"\t{date}" if date else ""

return {
    "SequenceMatcher": SequenceMatcher, "context_diff": context_diff, "get_close_matches": get_close_matches, "unified_diff": unified_diff,
}
