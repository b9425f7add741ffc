import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { picture } from "./browser.js";

function chunk(type, data) {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(data.length);
  return Buffer.concat([size, Buffer.from(type), data, Buffer.alloc(4)]); // the checksum is not checked
}

// image returns a PNG of RGB scanlines, each of which begins with its filter.
function image(width, lines, kind = 2) {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(lines.length, 4);
  head.set([8, kind, 0, 0, 0], 8);
  const signature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
  const data = deflateSync(Buffer.from(lines.flat()));
  return Buffer.concat([signature, chunk("IHDR", head), chunk("IDAT", data.subarray(0, 5)), chunk("IDAT", data.subarray(5)), chunk("IEND", Buffer.alloc(0))]);
}

test("the same pixels behind each filter", () => {
  // Two rows of (1,2,3) (1,2,3) (9,9,9).
  const rows = {
    none: [[0, 1, 2, 3, 1, 2, 3, 9, 9, 9], [0, 1, 2, 3, 1, 2, 3, 9, 9, 9]],
    sub: [[1, 1, 2, 3, 0, 0, 0, 8, 7, 6], [1, 1, 2, 3, 0, 0, 0, 8, 7, 6]],
    up: [[2, 1, 2, 3, 1, 2, 3, 9, 9, 9], [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
    average: [[0, 1, 2, 3, 1, 2, 3, 9, 9, 9], [3, 1, 1, 2, 0, 0, 0, 4, 4, 3]],
    paeth: [[4, 1, 2, 3, 0, 0, 0, 8, 7, 6], [4, 0, 0, 0, 0, 0, 0, 0, 0, 0]],
  };
  for (const [name, lines] of Object.entries(rows)) {
    assert.deepEqual(picture(image(3, lines)), { width: 3, height: 2, colours: 2 }, name);
  }
});

test("one colour", () => {
  assert.equal(picture(image(2, [[0, 7, 7, 7, 7, 7, 7]])).colours, 1);
});

test("invalid pictures are refused", () => {
  assert.throws(() => picture(Buffer.from("no picture at all, but long enough for a head")), /no PNG/);
  assert.throws(() => picture(image(1, [[0, 1, 2, 3]], 3)), /colour type 3/);
  assert.throws(() => picture(image(2, [[0, 1, 2, 3]])), /bytes of pixels/);
});
