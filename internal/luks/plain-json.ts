import { refuse } from './errors.ts';

/** The JSON of a LUKS2 header: no fractions, literals, escapes, blanks or repeated names. */
export type PlainJson = string | number | readonly PlainJson[] | PlainObject;
/** An object of `PlainJson`. A Map, so that no name has a meaning of its own. */
export type PlainObject = ReadonlyMap<string, PlainJson>;

const MAX_DEPTH = 6;
const MAX_ENTRIES = 64;
const STRING = /"([\x20\x21\x23-\x5b\x5d-\x7e]*)"/y;
const INTEGER = /(?:0|[1-9]\d{0,14})(?![\d.eE+-])/y;

/**
 * Parses JSON exactly as cryptsetup writes it. Refuses all text that two JSON parsers could read differently: repeated
 * names, escapes, numbers that are not small integers, and blanks.
 * @throws LuksError `luks-json`
 */
export function parsePlainJson(text: string): PlainJson {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.end();
  return value;
}

/** Whether a value is an object. */
export function isObject(value: PlainJson | undefined): value is PlainObject {
  return value instanceof Map;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(depth: number): PlainJson {
    if (depth > MAX_DEPTH) refuse('luks-json', 'nested too deeply');
    const next = this.#text[this.#at];
    if (next === '{') return this.#object(depth);
    if (next === '[') return this.#array(depth);
    return next === '"' ? this.#string() : Number(this.#take(INTEGER));
  }

  end(): void {
    if (this.#at !== this.#text.length) refuse('luks-json', `unexpected text at ${this.#at}`);
  }

  #object(depth: number): PlainObject {
    const found = new Map<string, PlainJson>();
    this.#list('{', '}', () => {
      const name = this.#string();
      if (found.has(name)) refuse('luks-json', 'a repeated name', name);
      this.#expect(':');
      found.set(name, this.value(depth + 1));
    });
    return found;
  }

  #array(depth: number): readonly PlainJson[] {
    const found: PlainJson[] = [];
    this.#list('[', ']', () => found.push(this.value(depth + 1)));
    return found;
  }

  #list(open: string, close: string, item: () => void): void {
    this.#expect(open);
    if (this.#skip(close)) return;
    for (let count = 1; ; count++) {
      if (count > MAX_ENTRIES) refuse('luks-json', `more than ${MAX_ENTRIES} entries`);
      item();
      if (this.#skip(close)) return;
      this.#expect(',');
    }
  }

  #string(): string {
    return this.#take(STRING).slice(1, -1);
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? refuse('luks-json', `unexpected text at ${this.#at}`);
    this.#at += found.length;
    return found;
  }

  #skip(sign: string): boolean {
    if (this.#text[this.#at] !== sign) return false;
    this.#at++;
    return true;
  }

  #expect(sign: string): void {
    if (!this.#skip(sign)) refuse('luks-json', `no ${sign} at ${this.#at}`);
  }
}
