import { readFile, writeFile, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { cells, Sheet } from "../src/sheet.js";

describe("a sheet", () => {
  it("computes what depends on other cells", () => {
    const sheet = Sheet.from({ A1: 2, A2: "=A1*3", A3: "=sum(A1:A2, 10) - max(A1:A2)", B1: "=(A3 + Z99)/4" });
    expect(sheet.value("A3")).toBe(12);
    expect(sheet.value("B1")).toBe(3);
  });

  it("asks each cell once", () => {
    const spy = vi.spyOn(Sheet.prototype, "value");
    const chain = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`A${i + 2}`, `=A${i + 1}+A${i + 1}`]));
    expect(Sheet.from({ A1: 1, ...chain }).value("A31")).toBe(2 ** 30);
    expect(spy.mock.calls.length).toBeLessThan(100);
    spy.mockRestore();
  });

  it.each([
    [{ A1: "=B1", B1: "=A1" }, "A1", RangeError],
    [{ A1: "=no(1)" }, "A1", ReferenceError],
    [{ A1: "=B1:B2" }, "A1", TypeError],
  ])("refuses %j", (json, name, kind) => {
    expect(() => Sheet.from(json).value(name)).toThrow(kind);
  });

  it("refuses what is no sheet", () => {
    expect(() => Sheet.from({ a1: 1 })).toThrow(/invalid/i);
    expect(() => Sheet.from({ A1: "text" })).toThrow();
  });

  it("is kept in a file", async () => {
    const file = join(await mkdtemp(join(tmpdir(), "sheet-")), "sheet.json");
    await writeFile(file, JSON.stringify({ A1: 1, A2: "=A1+1" }));
    expect(Sheet.from(JSON.parse(await readFile(file, "utf8"))).value("A2")).toBe(2);
  });
});

describe("a range", () => {
  it("goes over the end of the alphabet", () => {
    expect(cells("Z1", "AB2")).toEqual(["Z1", "AA1", "AB1", "Z2", "AA2", "AB2"]);
  });
});

// Large sheets, as many as ROUNDS says.
it("computes a large sheet", () => {
  for (let round = 0; round <= Number(process.env.ROUNDS ?? 0); round++) {
    const json: Record<string, number | string> = { A1: round };
    for (let i = 2; i <= 500; i++) json[`A${i}`] = `=max(A1:A${i - 1}) + 1`;
    expect(Sheet.from(json).value("A500")).toBe(round + 499);
  }
});
