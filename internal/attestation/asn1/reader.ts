import { Asn1Error } from './errors.ts';
import { TAG } from './tags.ts';

/** A DER element. `content` and `raw` are views of the input. */
export interface DerElement {
  readonly tag: number;
  /** The content octets. */
  readonly content: Uint8Array;
  /** Tag, length and content: what a signature covers. */
  readonly raw: Uint8Array;
  readonly depth: number;
}

const MAX_DEPTH = 16;
/** Lengths of up to 16 MiB, enough for a CRL: no document here needs a length of four octets or more. */
const MAX_LENGTH_OCTETS = 3;

/** Reads the elements of one level in order. Callers call `end()` to refuse further elements. */
export class DerReader {
  readonly #bytes: Uint8Array;
  readonly #depth: number;
  #at = 0;

  constructor(bytes: Uint8Array, depth = 0) {
    if (depth > MAX_DEPTH) throw new Asn1Error(`reading DER: more than ${MAX_DEPTH} levels`);
    this.#bytes = bytes;
    this.#depth = depth;
  }

  /** Whether this level has been read to its end. */
  get done(): boolean {
    return this.#at === this.#bytes.length;
  }

  /** The tag of the next element, or undefined at the end. */
  get nextTag(): number | undefined {
    return this.#bytes[this.#at];
  }

  /** The next element, which must have this tag. */
  read(tag: number): DerElement {
    const element = this.readAny();
    if (element.tag !== tag) {
      throw this.#malformed(`expected tag ${hex(tag)}, found ${hex(element.tag)}`);
    }
    return element;
  }

  /** The next element if it has this tag. */
  readOptional(tag: number): DerElement | undefined {
    return this.nextTag === tag ? this.read(tag) : undefined;
  }

  /** The next element with any tag. Refuses tags of more than one octet, which no supported document has. */
  readAny(): DerElement {
    const start = this.#at;
    const tag = this.#octet();
    if ((tag & 0x1f) === 0x1f) throw this.#malformed('tag of more than one octet');
    const length = this.#length();
    const from = this.#at;
    if (length > this.#bytes.length - from) throw this.#malformed('element longer than its parent');
    this.#at = from + length;
    return {
      tag,
      content: this.#bytes.subarray(from, this.#at),
      raw: this.#bytes.subarray(start, this.#at),
      depth: this.#depth,
    };
  }

  /** The encoded next element, without consuming it. */
  peekRaw(): Uint8Array {
    const start = this.#at;
    const { raw } = this.readAny();
    this.#at = start;
    return raw;
  }

  /** Reads a constructed element with `tag`. `parse` gets its content and must consume all of it. */
  inside<T>(tag: number, parse: (reader: DerReader) => T): T {
    const element = this.read(tag);
    const reader = new DerReader(element.content, element.depth + 1);
    const value = parse(reader);
    reader.end();
    return value;
  }

  /** Like `inside(…)` for an element that may be absent. */
  insideOptional<T>(tag: number, parse: (reader: DerReader) => T): T | undefined {
    return this.nextTag === tag ? this.inside(tag, parse) : undefined;
  }

  sequence<T>(parse: (reader: DerReader) => T): T {
    return this.inside(TAG.sequence, parse);
  }

  /** Reads the rest of this level: calls `parse` for each item. */
  all<T>(parse: (reader: DerReader) => T): T[] {
    const items: T[] = [];
    while (!this.done) items.push(parse(this));
    return items;
  }

  /** Throws Asn1Error if elements are left. */
  end(): void {
    if (!this.done) throw this.#malformed(`${this.#bytes.length - this.#at} extra bytes`);
  }

  #octet(): number {
    const octet = this.#bytes[this.#at];
    if (octet === undefined) throw this.#malformed('truncated');
    this.#at++;
    return octet;
  }

  /** Reads a length in its only valid form: definite, with the fewest octets (X.690 §10.1). */
  #length(): number {
    const first = this.#octet();
    if (first < 0x80) return first;
    const octets = first & 0x7f;
    if (octets === 0) throw this.#malformed('indefinite length');
    if (octets > MAX_LENGTH_OCTETS) throw this.#malformed(`length of more than ${MAX_LENGTH_OCTETS} octets`);
    let length = 0;
    for (let index = 0; index < octets; index++) length = length * 256 + this.#octet();
    const smallest = octets === 1 ? 0x80 : 256 ** (octets - 1);
    if (length < smallest) throw this.#malformed('length not in its shortest form');
    return length;
  }

  #malformed(what: string): Asn1Error {
    return new Asn1Error(`reading DER at offset ${this.#at}, level ${this.#depth}: ${what}`);
  }
}

/** Reads a document that consists of one element with `tag`. */
export function readOnly<T>(bytes: Uint8Array, tag: number, parse: (reader: DerReader) => T): T {
  const reader = new DerReader(bytes);
  const value = reader.inside(tag, parse);
  reader.end();
  return value;
}

function hex(octet: number): string {
  return `0x${octet.toString(16).padStart(2, '0')}`;
}
