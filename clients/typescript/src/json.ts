// JSON without loss: an integer beyond 2^53 is a bigint, in both directions.

const MARK = "\u0000integer:"; // no text of PostgreSQL contains \u0000
const LONG_NUMBER = /\d{16}/;
const STRING_OR_INTEGER = /"(?:[^"\\]|\\.)*"|-?\d+(?![\d.eE])|-?\d[\d.eE+-]*/g;
const MARKED = /"\\u0000integer:(-?\d+)"/g;

/** Parses JSON. An integer that a number cannot hold becomes a bigint. */
export function parseJson(text: string): unknown {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  let marked = false;
  const source = text.replace(STRING_OR_INTEGER, (word) => {
    if (!/^-?\d+$/.test(word) || Number.isSafeInteger(Number(word))) return word;
    marked = true;
    return `"\\u0000integer:${word}"`;
  });
  if (!marked) return JSON.parse(text);
  return JSON.parse(source, (_, value: unknown) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/** Writes JSON. A bigint becomes an integer; `undefined` where JSON has no such value. */
export function toJson(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  let marked = false;
  const text = JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "bigint") return inner;
    marked = true;
    return MARK + inner.toString();
  }) as string | undefined;
  return marked ? text?.replace(MARKED, "$1") : text;
}
