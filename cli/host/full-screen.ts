import { printable } from '../../internal/printable/index.ts';
import type { HostOptions, OutputStream } from './host.ts';
import { parseKeys } from './keys.ts';
import { createPaint, type Paint } from './paint.ts';
import type { FullScreen, ScreenEvents, ScreenLine, Span } from './screen-port.ts';

/** Terminals of 80 by 24 cells are the smallest in use; some serial consoles report no size. */
const DEFAULT_SIZE = { columns: 80, rows: 24 };
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l\u001b[2J\u001b[H';
/** Shows the cursor, wraps lines again, and returns to the screen of before with its content. */
const LEAVE = '\u001b[0m\u001b[?7h\u001b[?25h\u001b[?1049l';
const CLEAR = '\u001b[2J';

/**
 * Takes the whole terminal; undefined unless keyboard and results are a terminal that can be drawn on. The terminal is
 * restored when the result is disposed, and by the exit of this process if that comes first.
 */
export function openFullScreen(
  { streams, env, onExit }: Pick<HostOptions, 'streams' | 'env' | 'onExit'>,
  events: ScreenEvents,
): FullScreen | undefined {
  const { in: keyboard, out } = streams;
  const canDraw = keyboard.isTTY === true && out.isTTY === true && (env['TERM'] ?? 'dumb') !== 'dumb';
  if (!canDraw || keyboard.setRawMode === undefined) return undefined;
  const drawing = new Drawing(out, createPaint(out, env), isUnicode(env));
  const onData = (data: string | Uint8Array): void => {
    for (const key of parseKeys(Buffer.from(data).toString('utf8')))
      if (key === 'redraw') drawing.forget();
      else events.onKey(key);
    if (drawing.isForgotten) events.onResize();
  };
  const onResize = (): void => {
    drawing.forget();
    events.onResize();
  };
  let isOpen = true;
  const leave = (): void => {
    if (!isOpen) return;
    isOpen = false;
    keyboard.setRawMode?.(false);
    out.write(LEAVE);
  };
  const forgetExit = onExit?.(leave);
  keyboard.setRawMode(true);
  keyboard.on('data', onData);
  keyboard.resume();
  out.on('resize', onResize);
  out.write(ENTER);
  return {
    get columns() {
      return out.columns || DEFAULT_SIZE.columns;
    },
    get rows() {
      return out.rows || DEFAULT_SIZE.rows;
    },
    isUnicode: drawing.isUnicode,
    draw: (lines) => isOpen && drawing.draw(lines),
    [Symbol.dispose]: () => {
      keyboard.off('data', onData);
      keyboard.pause();
      out.off('resize', onResize);
      leave();
      forgetExit?.();
    },
  };
}

function isUnicode(env: HostOptions['env']): boolean {
  const locale = [env['LC_ALL'], env['LC_CTYPE'], env['LANG']].find((each) => (each ?? '') !== '') ?? '';
  return /utf-?8/i.test(locale);
}

/** Sends the lines that differ from those on the terminal. */
class Drawing {
  readonly isUnicode: boolean;
  readonly #out: OutputStream;
  readonly #paint: Paint;
  #shown: readonly string[] | undefined = [];

  constructor(out: OutputStream, paint: Paint, unicode: boolean) {
    this.#out = out;
    this.#paint = paint;
    this.isUnicode = unicode;
  }

  get isForgotten(): boolean {
    return this.#shown === undefined;
  }

  /** The next draw sends every line. */
  forget(): void {
    this.#shown = undefined;
  }

  draw(lines: readonly ScreenLine[]): void {
    const painted = lines.map((line) => line.map((span) => this.#painted(span)).join(''));
    const shown = this.#shown;
    const changed = painted.flatMap((text, row) =>
      shown?.[row] === text ? [] : [`\u001b[${row + 1};1H${text}`],
    );
    const start = shown === undefined ? CLEAR : '';
    if (changed.length > 0) this.#out.write(start + changed.join(''));
    this.#shown = painted;
  }

  /** The only place where text gets to the terminal: no character of another program can control it. */
  #painted({ text, style }: Span): string {
    const safe = printable(text, { maxChars: Infinity });
    const shown = this.isUnicode ? safe : asciiOf(safe);
    if (style === undefined) return shown;
    return style === 'chosen' ? `\u001b[7m${shown}\u001b[27m` : this.#paint(style, shown);
  }
}

const ASCII: Readonly<Record<string, string>> = {
  '█': '#',
  '░': '.',
  '●': '*',
  '○': 'o',
  '◆': '*',
  '│': '|',
  '─': '-',
  '┬': '+',
  '…': '~',
  '▸': '>',
  '–': '-',
  '↑': '^',
  '↓': 'v',
};

function asciiOf(text: string): string {
  return text.replace(/[^\x20-\x7e]/gu, (character) => ASCII[character] ?? '?');
}
