import { describe, expect, it } from "vitest";
import { parse, tokens } from "../src/formula.js";

describe("formulas", () => {
  it("have tokens", () => {
    expect(tokens(" 1.5*(A1 +sum( B2:C30 ,2))")).toEqual(["1.5", "*", "(", "A1", "+", "sum", "(", "B2", ":", "C30", ",", "2", ")", ")"]);
  });

  it("multiply before they add", () => {
    expect(parse("1+2*A3")).toMatchInlineSnapshot(`
      {
        "kind": "binary",
        "left": {
          "kind": "number",
          "value": 1,
        },
        "op": "+",
        "right": {
          "kind": "binary",
          "left": {
            "kind": "number",
            "value": 2,
          },
          "op": "*",
          "right": {
            "kind": "cell",
            "name": "A3",
          },
        },
      }
    `);
  });

  it.each(["", "1 +", "(1", "1 2", "sum 1", "1 ? 2", ")"])("refuse %j", (text) => {
    expect(() => parse(text)).toThrow(SyntaxError);
  });
});
