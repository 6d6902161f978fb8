import { z } from "zod";
import { type Formula, parse } from "./formula.js";

const shape = z.record(z.string().regex(/^[A-Z]+\d+$/), z.union([z.number(), z.string().startsWith("=")]));

/** A sheet has numbers and formulas in its cells. */
export class Sheet {
  readonly #cells: Map<string, number | Formula>;
  readonly #known = new Map<string, number>();
  readonly #asked = new Set<string>();

  private constructor(cells: Map<string, number | Formula>) {
    this.#cells = cells;
  }

  static from(json: unknown): Sheet {
    const cells = new Map<string, number | Formula>();
    for (const [name, cell] of Object.entries(shape.parse(json))) {
      cells.set(name, typeof cell === "number" ? cell : parse(cell.slice(1)));
    }
    return new Sheet(cells);
  }

  /** The value of a cell; an empty one is 0. */
  value(name: string): number {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const cell = this.#cells.get(name) ?? 0;
    if (typeof cell === "number") return cell;
    if (this.#asked.has(name)) throw new RangeError(`${name} depends on itself`);
    this.#asked.add(name);
    try {
      const value = this.#evaluate(cell);
      this.#known.set(name, value);
      return value;
    } finally {
      this.#asked.delete(name);
    }
  }

  #evaluate(f: Formula): number {
    switch (f.kind) {
      case "number":
        return f.value;
      case "cell":
        return this.value(f.name);
      case "range":
        throw new TypeError("a range is no number");
      case "binary": {
        const left = this.#evaluate(f.left);
        const right = this.#evaluate(f.right);
        return f.op === "+" ? left + right : f.op === "-" ? left - right : f.op === "*" ? left * right : left / right;
      }
      case "call": {
        const values = f.args.flatMap((a) => (a.kind === "range" ? cells(a.from, a.to).map((c) => this.value(c)) : [this.#evaluate(a)]));
        if (f.name === "sum") return values.reduce((a, b) => a + b, 0);
        if (f.name === "max") return Math.max(...values);
        throw new ReferenceError(`unknown function ${f.name}`);
      }
    }
  }
}

/** The names of the cells of a range, line by line. */
export function cells(from: string, to: string): string[] {
  const [a, b] = [place(from), place(to)];
  const all: string[] = [];
  for (let row = a.row; row <= b.row; row++) {
    for (let column = a.column; column <= b.column; column++) all.push(letters(column) + row);
  }
  return all;
}

function place(name: string): { column: number; row: number } {
  const [, text, row] = /^([A-Z]+)(\d+)$/.exec(name) ?? [];
  if (!text || !row) throw new SyntaxError(`${name} is no cell`);
  return { column: [...text].reduce((n, c) => n * 26 + c.charCodeAt(0) - 64, 0), row: Number(row) };
}

function letters(column: number): string {
  let text = "";
  for (; column > 0; column = Math.floor((column - 1) / 26)) text = String.fromCharCode(65 + ((column - 1) % 26)) + text;
  return text;
}
