// How values travel: each parameter is text, and the statement casts it. So no driver guesses a type,
// and each driver sends the same.

/** What the library needs of a driver. */
export interface Queryable {
  /** Runs one statement with parameters `$1`, `$2` …, each of them a text or null. */
  query(text: string, values?: (string | null)[]): Promise<{ rows: Row[] }>;
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Row = Record<string, any>;

/** A length of time: milliseconds, or an interval as PostgreSQL writes it (`"1 hour"`). */
export type Interval = number | string;

export function interval(value: Interval): string {
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) throw new RangeError(`not a length of time: ${value}`);
  return `${value} milliseconds`;
}

/** A point in time. A number is refused: it may be meant since 1970, or from now. */
export function moment(value: Date): string {
  if (!(value instanceof Date)) throw new TypeError(`not a Date: ${String(value)}`);
  return value.toISOString();
}

/** A point in time: a Date, or milliseconds from now. */
export function timestamp(value: Date | number): string {
  return moment(typeof value === "number" ? new Date(Date.now() + value) : value);
}

/** An array as PostgreSQL writes it. */
export function array(values: readonly (string | null)[]): string {
  return `{${values.map((value) => (value === null ? "NULL" : quote(value))).join()}}`;
}

/** As `array`; null where each value is null. */
export function sparse(values: readonly (string | null)[]): string | null {
  return values.some((value) => value !== null) ? array(values) : null;
}

/** As `array`, of ids and other words without a character that needs a quote. */
export function words(values: readonly string[]): string {
  return `{${values.join()}}`;
}

function quote(value: string): string {
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}

/** Text that PostgreSQL can store: without NUL, and without half of a surrogate pair. */
export function storable(value: string): string {
  return value.replace(/\u0000|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}

/** A statement in the making: `add` gives the placeholder of a value. */
export class Statement {
  readonly values: (string | null)[] = [];

  add(value: string | null, type: string): string {
    this.values.push(value);
    return type === "text" ? `$${this.values.length}::text` : `$${this.values.length}::text::${type}`;
  }
}
