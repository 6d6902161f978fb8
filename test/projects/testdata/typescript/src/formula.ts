// Formulas are numbers, cells, +, -, *, /, brackets, and the functions sum and max over ranges.

export type Formula =
  | { kind: "number"; value: number }
  | { kind: "cell"; name: string }
  | { kind: "range"; from: string; to: string }
  | { kind: "call"; name: string; args: Formula[] }
  | { kind: "binary"; op: "+" | "-" | "*" | "/"; left: Formula; right: Formula };

const token = /\s*(?:(\d+(?:\.\d+)?)|([A-Z]+\d+)|([a-z]+)|([-+*/():,]))/y;

export function tokens(text: string): string[] {
  const all: string[] = [];
  token.lastIndex = 0;
  while (token.lastIndex < text.trimEnd().length) {
    const at = token.lastIndex;
    const found = token.exec(text);
    if (!found) throw new SyntaxError(`cannot read ${JSON.stringify(text.slice(at))}`);
    all.push(found[0].trim());
  }
  return all;
}

export function parse(text: string): Formula {
  const all = tokens(text);
  let at = 0;
  const peek = () => all[at];
  const next = () => all[at++];
  const expect = (want: string) => {
    const got = next();
    if (got !== want) throw new SyntaxError(`want ${want}, got ${got ?? "the end"}`);
  };

  function sum(): Formula {
    let left = product();
    for (let op = peek(); op === "+" || op === "-"; op = peek()) {
      next();
      left = { kind: "binary", op, left, right: product() };
    }
    return left;
  }
  function product(): Formula {
    let left = atom();
    for (let op = peek(); op === "*" || op === "/"; op = peek()) {
      next();
      left = { kind: "binary", op, left, right: atom() };
    }
    return left;
  }
  function atom(): Formula {
    const got = next();
    if (got === undefined) throw new SyntaxError("the formula ends too early");
    if (got === "(") {
      const inner = sum();
      expect(")");
      return inner;
    }
    if (/^\d/.test(got)) return { kind: "number", value: Number(got) };
    if (/^[A-Z]/.test(got)) {
      if (peek() !== ":") return { kind: "cell", name: got };
      next();
      return { kind: "range", from: got, to: next() ?? "" };
    }
    if (/^[a-z]/.test(got)) {
      expect("(");
      const args = [sum()];
      while (peek() === ",") {
        next();
        args.push(sum());
      }
      expect(")");
      return { kind: "call", name: got, args };
    }
    throw new SyntaxError(`${got} is out of place`);
  }

  const formula = sum();
  if (peek() !== undefined) throw new SyntaxError(`${peek()} follows the formula`);
  return formula;
}
