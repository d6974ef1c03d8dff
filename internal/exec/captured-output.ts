import { StringDecoder } from 'node:string_decoder';
import type { Readable } from 'node:stream';

const MAX_CHARACTERS = 8 * 1024 * 1024;
const TAIL_CHARACTERS = 2000;
/** A longer line is passed on in pieces, because another program controls its length. */
const MAX_LINE_CHARACTERS = 64 * 1024;

/** Splits an output stream into lines. Keeps its beginning up to a limit, and its last characters for error messages, unless it is secret. */
export class CapturedOutput {
  readonly #decoder = new StringDecoder('utf8');
  readonly #onLine: (line: string) => void;
  readonly #isSecret: boolean;
  #text: string[] = [];
  #left = MAX_CHARACTERS;
  #tail = '';
  #line = '';

  constructor(
    stream: Readable,
    options: { readonly isSecret: boolean; readonly onLine: (line: string) => void },
  ) {
    this.#onLine = options.onLine;
    this.#isSecret = options.isSecret;
    stream.on('data', (chunk: Buffer) => this.#take(chunk));
  }

  /** The first 8 Mi characters. */
  get text(): string {
    return this.#text.join('');
  }

  get tail(): string {
    return this.#tail.trim();
  }

  /** Passes on the text after the last line break. */
  end(): void {
    if (this.#line !== '') this.#onLine(this.#line);
    this.#line = '';
  }

  #take(chunk: Buffer): void {
    const text = this.#decoder.write(chunk);
    if (!this.#isSecret) this.#keep(text);
    const lines = (this.#line + text).split(/\r?\n/);
    this.#line = lines.pop() ?? '';
    for (const line of lines) this.#onLine(line);
    if (this.#line.length > MAX_LINE_CHARACTERS) this.end();
  }

  #keep(text: string): void {
    if (this.#left > 0) this.#text.push(text.slice(0, this.#left));
    this.#left -= text.length;
    this.#tail = (this.#tail + text).slice(-TAIL_CHARACTERS);
  }
}
