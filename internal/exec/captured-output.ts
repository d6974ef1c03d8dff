import { StringDecoder } from 'node:string_decoder';
import type { Readable } from 'node:stream';

const MAX_CHARACTERS = 8 * 1024 * 1024;
const TAIL_CHARACTERS = 2000;
/** A "line" that goes on longer is handed out in pieces: somebody else's program decides what comes. */
const MAX_LINE_CHARACTERS = 64 * 1024;

/** What is kept of one output stream: its beginning up to a limit, and its end for error messages. */
export class CapturedOutput {
  readonly #decoder = new StringDecoder('utf8');
  readonly #onLine: (line: string) => void;
  #text: string[] = [];
  #room = MAX_CHARACTERS;
  #tail = '';
  #line = '';

  constructor(stream: Readable, onLine: (line: string) => void) {
    this.#onLine = onLine;
    stream.on('data', (chunk: Buffer) => this.#take(chunk));
  }

  /** At most 8 Mi characters; the rest is cut. */
  get text(): string {
    return this.#text.join('');
  }

  get tail(): string {
    return this.#tail.trim();
  }

  /** Hands out what came after the last line break. */
  end(): void {
    if (this.#line !== '') this.#onLine(this.#line);
    this.#line = '';
  }

  #take(chunk: Buffer): void {
    const text = this.#decoder.write(chunk);
    if (this.#room > 0) this.#text.push(text.slice(0, this.#room));
    this.#room -= text.length;
    this.#tail = (this.#tail + text).slice(-TAIL_CHARACTERS);
    const lines = (this.#line + text).split(/\r?\n/);
    this.#line = lines.pop() ?? '';
    for (const line of lines) this.#onLine(line);
    if (this.#line.length > MAX_LINE_CHARACTERS) this.end();
  }
}
